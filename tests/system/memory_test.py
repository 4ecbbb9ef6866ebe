#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Memory is decided once: the same bytes for any prompt and any answer, equal to the plan; RSS flat after the first token.

usage: memory_test.py KVASE MODEL [--budget N] [--prompts A,B,C] [--generate N]

A claim about memory, not about sense: prompts are one word repeated, and answers may run past the trained context.
"""
import argparse
import json
import re
import subprocess
import sys

MIB = 1 << 20
# Besides weights and plan: program, libraries, tokenizer, graph scratch, sampler.
ALLOWED_BESIDES_BYTES = 150 * MIB
# What the answer's own text may take.
ALLOWED_GROWTH_BYTES = 256 * 1024


def status_bytes(pid, field):
    """A field of /proc/PID/status, or None when the process is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return None


def json_of(command):
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)


def watch(command):
    """Streams an answer; returns RSS at the first byte, at the end, the peak, and the number of tokens."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first = last = peak = None
    while process.stdout.read(64 if first else 1):
        rss, high = status_bytes(process.pid, "VmRSS"), status_bytes(process.pid, "VmHWM")
        if rss is None or high is None:
            break
        first = first or rss
        last, peak = rss, high
    summary = process.stderr.read().decode()
    if process.wait() != 0:
        sys.exit(f"failed: {' '.join(command)}: exit {process.returncode}")
    n_generated = int(re.search(r"answer .*\((\d+) tokens\)", summary).group(1))
    return first, last, peak, n_generated


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kvase")
    parser.add_argument("model")
    parser.add_argument("--budget", default="256")
    parser.add_argument("--prompts", default="100,600")
    parser.add_argument("--generate", default="200")
    parser.add_argument("--kv", default="vase-attnv")
    parser.add_argument("--seed", default="1")
    args = parser.parse_args()

    shape = ["--kv", args.kv, "--kv-budget", args.budget]
    plan = json_of([args.kvase, "plan", "-m", args.model, *shape, "--json"])
    row = next(r for r in plan["rows"] if r["policy"].startswith(args.kv))
    planned = row["kv_bytes"] + row["side_bytes"] + row["map_bytes"]
    failures = []

    def expect(condition, message):
        print(("ok    " if condition else "FAIL  ") + message, flush=True)
        if not condition:
            failures.append(message)

    for n_prompt in map(int, args.prompts.split(",")):
        run = [args.kvase, "run", "-m", args.model, "-p", " the" * n_prompt, *shape, "--temp", "1", "-s", args.seed, "--ignore-eos"]
        short = json_of([*run, "-n", "1", "--json"])
        expect(short["n_prompt"] in (n_prompt, n_prompt + 1), f"prompt of {short['n_prompt']} tokens")
        expect(short["kv"]["bytes"] == row["kv_bytes"] and short["kv"]["side_bytes"] == row["side_bytes"],
               f"  kv {short['kv']['bytes']:,} + side {short['kv']['side_bytes']:,} bytes, as planned")
        first, last, peak, n_generated = watch([*run, "-n", args.generate])
        if first is None:
            failures.append(f"prompt of {n_prompt}: no text to watch")
            continue
        expect(n_generated == int(args.generate), f"  {n_generated} tokens generated")
        expect(last - first <= ALLOWED_GROWTH_BYTES,
               f"  {n_generated} tokens: RSS {first / MIB:.1f} MiB at the first, {last / MIB:.1f} at the last")
        besides = peak - plan["weights_bytes"] - planned
        expect(besides <= ALLOWED_BESIDES_BYTES,
               f"  peak {peak / MIB:.1f} MiB = weights {plan['weights_bytes'] / MIB:.1f} + plan {planned / MIB:.1f} + {besides / MIB:.1f}")
    sys.exit(f"{len(failures)} failed" if failures else 0)


if __name__ == "__main__":
    main()
