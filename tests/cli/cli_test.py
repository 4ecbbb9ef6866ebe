#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The command as a user sees it: exit status, the one error line, JSON fields, and that text is always UTF-8.

usage: cli_test.py KVASE KVASE_TOY_MODEL
"""

import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # leaves no files in the checkout

from gguf_writer import F32, I32, write_tensors
from refusal import check_refused

KVASE, TOY_MODEL = "", ""
SMALL = ["--kv-budget", "48", "--kv-interval", "16"]
ONE_THREAD = ["-t", "1"]  # threads of a busy machine wait for each other


def kvase(*arguments):
    return subprocess.run([KVASE, *arguments], capture_output=True, timeout=120)


class CliTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.dir = Path(cls.folder.name)
        cls.model = str(cls.dir / "toy.gguf")
        subprocess.run(
            [TOY_MODEL, cls.model, "--arch", "llama", "--layers", "2", "--heads", "4", "--kv-heads", "2", "--head-dim", "64",
             "--type", "q8_0", "--vocab", "512"],
            check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def file(self, name, content):
        path = self.dir / name
        path.write_bytes(content)
        return str(path)

    def refuse(self, arguments, *words, status=2):
        with self.subTest(arguments=arguments):
            check_refused(self, kvase(*arguments), *words, status=status)

    def json_of(self, arguments):
        result = kvase(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr.decode(errors="replace"))
        return json.loads(result.stdout.decode("utf-8"))

    def run_json(self, *arguments):
        return self.json_of(["run", "-m", self.model, "-p", "Hello", *SMALL, *ONE_THREAD, "--json", *arguments])


class BadInput(CliTest):
    def run_with(self, *flags):
        return ["run", "-m", self.model, "-p", "Hello", *flags]

    def test_commands(self):
        self.refuse([], "no command", "run, chat, policies, plan, score")
        self.refuse(["bogus"], "unknown command", "bogus", "run, chat, policies, plan, score")
        self.refuse(["--bogus"], "--bogus", "allowed")
        self.refuse(["run", "--bogus"], "unknown argument", "--bogus", "kvase run --help")
        self.refuse(self.run_with("stray"), "unknown argument", "stray")
        self.refuse(self.run_with("--kv-window"), "--kv-window", "without a value")
        self.refuse(self.run_with("--temp", "1", "--temp", "2"), "--temp", "more than once")
        self.refuse(["policies", "nope"], "nope", "vase-attnv")
        self.refuse(["policies", "full", "window"], "window")
        self.refuse(["plan", "--kv", "full"], "no model", "-m")
        self.refuse(["score"], "no input", "--input")

    def test_numbers_that_are_none(self):
        for flag in ["--kv-interval", "--kv-window", "--kv-sinks", "-c", "-t", "-ub", "-n", "-s", "--temp", "--top-k", "--top-p",
                     "--min-p"]:
            for text in ["abc", "", "1x", "0x10", "99999999999999999999999"]:
                if flag in ("--temp", "--top-p", "--min-p") and text.startswith("99"):
                    continue
                self.refuse(self.run_with(flag, text), "allowed: ", text)

    def test_numbers_do_not_wrap(self):
        for flag in ["--kv-interval", "--kv-window", "--kv-sinks", "-c", "-t", "-ub"]:
            for text in ["-1", "4294967296", "4294967297", "18446744073709551617", "1.5", "1e3"]:
                self.refuse(self.run_with(flag, text), text, "allowed: a whole number from 0 to 4294967295")
        for text in ["-2", "18446744073709551616"]:
            self.refuse(self.run_with("--seed", text), "--seed", text)
            self.refuse(["score", "--seed", text], "--seed", text)

    def test_numbers_out_of_range(self):
        for flags, *words in [
            (["--kv-interval", "0"], "--kv-interval", "1..65536"),
            (["--kv-interval", "65537"], "--kv-interval", "1..65536"),
            (["--kv-window", "0"], "--kv-window", "1..64"),
            (["--kv-window", "65"], "--kv-window", "1..64"),
            (["--kv-sinks", "5000"], "sinks"),
            (["--kv-budget", "8"], "--kv-budget 8", "at least"),
            (["--kv-budget", "0"], "budget", "0"),
            (["--kv-budget", "-5"], "budget", "-5"),
            (["--kv-budget", "many"], "budget", "many", "512MiB"),
            (["--kv-budget", "5TiB"], "budget", "5TiB"),
            (["--kv-budget", "99999999999"], "budget", "99999999999"),
            (["--kv", "full", "-c", "0"], "-c", "0"),
            (["-t", "513"], "513", "512"),
            (["-ub", "0"], "ub", "4096"),
            (["-ub", "4097"], "ub", "4096"),
            (["-n", "-2"], "-2"),
            (["--temp", "-1"], "--temp -1", "0 or more"),
            (["--temp", "nan"], "--temp nan"),
            (["--temp", "inf"], "--temp inf"),
            (["--top-k", "-1"], "--top-k -1"),
            (["--top-p", "0"], "--top-p 0"),
            (["--top-p", "1.5"], "--top-p 1.5"),
            (["--min-p", "-0.1"], "--min-p -0.1"),
            (["--min-p", "2"], "--min-p 2"),
            (["--prefill", "some"], "--prefill", "bounded, whole"),
            (["--cache-type-k", "q8_0"], "q8_0", "f32, f16, bf16"),
            (["-ctv", "f8"], "f8", "f32, f16, bf16"),
        ]:
            self.refuse(self.run_with(*flags), *words, "allowed")

    def test_policies(self):
        for policy, *words in [
            ("", "allowed"),
            ("nope", "nope", "streaming-llm"),
            ("window:", "window"),
            ("window:sinks", "sinks"),
            ("window:bogus=1", "bogus"),
            ("window:sinks=1,sinks=2", "sinks"),
            ("window:sinks=-1", "-1"),
            ("vase-attnv:n_large=99999", "n_large"),
            ("vase-attnv:fill=other", "fill", "sample"),
            ("snapkv:kernel=4,smooth=max", "kernel"),
            ("window+nope", "nope"),
        ]:
            self.refuse(self.run_with("--kv", policy), *words, "allowed")
            self.refuse(["plan", "-m", self.model, "--kv", policy], *words, "allowed")

    def test_prompts(self):
        start = ["run", "-m", self.model]
        text = self.file("prompt.txt", b"Hello")
        self.refuse(start, "no prompt", "-p")
        self.refuse([*start, "-p", "Hello", "-f", text], "--prompt and --file", "one of them")
        self.refuse([*start, "-p", ""], "empty prompt")
        self.refuse([*start, "-f", self.file("empty.txt", b"")], "empty prompt")
        self.refuse([*start, "-f", self.file("newline.txt", b"\n")], "empty prompt")
        self.refuse([*start, "-f", str(self.dir / "missing.txt")], "missing.txt", "No such file")
        self.refuse([*start, "-f", str(self.dir)], "directory")
        self.refuse([*start, "-p", b"ab\xe6\xad"], "0xe6", "offset 2", "UTF-8")
        self.refuse([*start, "-f", self.file("latin1.txt", b"caf\xe9 au lait")], "0xe9", "offset 3", "UTF-8")

    def test_prompts_that_do_not_fit(self):
        long = "word " * 200
        self.refuse(["run", "-m", self.model, "-p", long, "--kv", "full", "-c", "16"], "601 tokens", "allowed: 16")
        self.refuse(["run", "-m", self.model, "-p", long, "--prefill", "whole", "-c", "16", *SMALL], "601 tokens", "allowed: ")

    def test_models(self):
        whole = Path(self.model).read_bytes()
        for path, *words in [
            (str(self.dir / "missing.gguf"), "missing.gguf"),
            (str(self.dir), str(self.dir)),
            (self.file("empty.gguf", b""), "empty.gguf"),
            (self.file("text.gguf", b"This is no model. " * 100), "text.gguf"),
            (self.file("noise.gguf", random.Random(1).randbytes(5000)), "noise.gguf"),
            (self.file("magic.gguf", b"GGUF"), "magic.gguf"),
            (self.file("noise_after_magic.gguf", b"GGUF\x03\0\0\0" + random.Random(2).randbytes(5000)), "noise_after_magic.gguf"),
            (self.file("half.gguf", whole[:len(whole) // 2]), "half.gguf"),
            (self.file("one_byte_short.gguf", whole[:-1]), "one_byte_short.gguf"),
            (self.file("line\nbreak.gguf", b"x"), "break.gguf"),
        ]:
            self.refuse(["run", "-m", path, "-p", "Hello"], *words)
            self.refuse(["plan", "-m", path], *words)
        self.refuse(["run", "-p", "Hello"], "no model", "-m")

    def test_score_inputs(self):
        self.refuse(["score", "--input", str(self.dir / "missing.gguf")], "missing.gguf")
        self.refuse(["score", "--input", self.file("noise_score.gguf", b"GGUF" + bytes(50))], "noise_score.gguf")
        path = str(self.dir / "only_k.gguf")
        write_tensors(path, [("k", F32, [4, 8, 1], [0.0] * 32)])
        self.refuse(["score", "--input", path], "only_k.gguf")


class Help(CliTest):
    def test_help(self):
        for arguments in [["--help"], ["-h"], ["run", "--help"], ["policies", "-h"], ["plan", "--help"], ["score", "--help"]]:
            with self.subTest(arguments=arguments):
                result = kvase(*arguments)
                self.assertEqual((result.returncode, result.stderr), (0, b""))
                text = result.stdout.decode()
                self.assertIn("kvase", text)
                self.assertIn("Example", text)
                self.assertLessEqual(max(len(line) for line in text.splitlines()), 130)

    def test_run_help_shows_every_flag_of_the_contract(self):
        text = kvase("run", "--help").stdout.decode()
        for flag in ["-m,", "-p,", "-f,", "-n,", "-t,", "-s,", "-c,", "-ub", "--temp", "--top-k", "--top-p", "--min-p", "-ctk",
                     "-ctv", "--cache-type-k", "--cache-type-v", "--kv ", "--kv-budget", "--kv-interval", "--kv-window",
                     "--kv-sinks", "--prefill", "--no-repack", "--json", "--verbose", "--chat ", "-sys", "--chat-template",
                     "--think ", "--think-budget"]:
            self.assertIn(flag, text)

    def test_version(self):
        result = kvase("--version")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout.decode(), r"^kvase \d+\.\d+\.\d+\n$")


class Run(CliTest):
    FIELDS = {"text", "thinking", "n_prompt", "n_generated", "finish_reason", "seed", "prefill_tps", "decode_tps", "kv"}
    KV_FIELDS = {"policy", "budget", "capacity", "bytes", "side_bytes", "map_bytes", "n_seen", "n_kept", "n_evictions",
                 "evict_ms"}

    def test_json(self):
        for policy in ["vase-attnv", "full", "window", "snapkv:smooth=max", "vase-dkv"]:
            with self.subTest(policy=policy):
                run = self.run_json("--kv", policy, "-n", "100", "--seed", "3")
                self.assertLessEqual(self.FIELDS, run.keys())
                self.assertLessEqual(self.KV_FIELDS, run["kv"].keys())
                self.assertIn(run["finish_reason"], ["stop", "length"])
                self.assertLessEqual(run["n_generated"], 100)
                self.assertEqual(run["seed"], 3)
                self.assertEqual(run["kv"]["policy"], policy)
                self.assertLessEqual(run["kv"]["n_kept"], run["kv"]["capacity"])
                if run["finish_reason"] == "length":
                    self.assertEqual(run["n_generated"], 100)
                if policy == "full":
                    self.assertEqual(run["kv"]["n_evictions"], 0)
                else:
                    self.assertEqual(run["kv"]["budget"], 48)
                    self.assertEqual(run["kv"]["capacity"], 64)
                    self.assertEqual(run["kv"]["n_evictions"] > 0, run["kv"]["n_seen"] > 64)

    def test_bytes_are_those_of_the_plan(self):
        for policy in ["vase-attnv", "full"]:
            with self.subTest(policy=policy):
                kv = self.run_json("--kv", policy, "-n", "2")["kv"]
                plan = self.json_of(["plan", "-m", self.model, "--kv", policy, *SMALL, "--json"])
                row = next(row for row in plan["rows"] if row["policy"] == policy)
                self.assertEqual((kv["bytes"], kv["side_bytes"], kv["map_bytes"]),
                                 (row["kv_bytes"], row["side_bytes"], row["map_bytes"]))

    def test_streamed_text_is_the_json_text_and_utf8(self):
        broken = 0
        for seed in range(8):
            flags = ["-n", "60", "--temp", "2", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--seed", str(seed)]
            text = self.run_json(*flags)["text"]
            result = kvase("run", "-m", self.model, "-p", "Hello", *SMALL, *ONE_THREAD, *flags)
            self.assertEqual(result.returncode, 0)
            self.assertEqual(result.stdout.decode("utf-8"), text + "\n", f"seed {seed}")
            broken += "\ufffd" in text
        self.assertGreater(broken, 0, "the toy model was meant to emit bytes that are not UTF-8")

    def test_seed(self):
        flags = ["-n", "40", "--temp", "1.5"]
        texts = [self.run_json(*flags, "--seed", str(seed))["text"] for seed in (1, 1, 2, 18446744073709551615)]
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(len(set(texts)), 3)
        first, second = self.run_json(*flags), self.run_json(*flags, "--seed", "-1")
        self.assertNotEqual(first["seed"], second["seed"])
        self.assertEqual(self.run_json(*flags, "-s", str(first["seed"]))["text"], first["text"])

    def test_temperature_zero_needs_no_seed(self):
        self.assertEqual(len({self.run_json("-n", "30", "--temp", "0", "--kv", "window")["text"] for _ in range(2)}), 1)

    def test_summary_names_what_the_run_depended_on(self):
        result = kvase("run", "-m", self.model, "-p", "Hello", "-n", "8", "--seed", "5", *SMALL, *ONE_THREAD, "--verbose")
        message = result.stderr.decode()
        for words in ["KV cache: ", " bytes", "for any length", "vase-attnv", "budget 48 + interval 16", "seed 5", "seen ",
                      "kept ", "evictions ", "tokens/s", "side ", "length"]:
            self.assertIn(words, message)

    def test_long_prompt_in_bounded_memory(self):
        path = self.file("long.txt", b"The quick brown fox. " * 100)
        run = self.json_of(["run", "-m", self.model, "-f", path, "-n", "4", *SMALL, *ONE_THREAD, "-ub", "32", "--json"])
        self.assertGreater(run["n_prompt"], 200)
        self.assertGreater(run["kv"]["n_evictions"], 5)
        self.assertEqual(run["kv"]["capacity"], 64)

    def test_warnings(self):
        for flags, *words in [
            (["--kv", "full", "--kv-budget", "64"], "full ignores"),
            (["--kv", "full:budget=64"], "full ignores"),
            (["-c", "100"], "-c 100 has no effect"),
        ]:
            with self.subTest(flags=flags):
                result = kvase("run", "-m", self.model, "-p", "Hello", "-n", "1", *ONE_THREAD, *flags)
                self.assertEqual(result.returncode, 0)
                for word in words:
                    self.assertIn("kvase: warning: ", result.stderr.decode())
                    self.assertIn(word, result.stderr.decode())

    def test_beyond_the_trained_context_warns(self):
        model = str(self.dir / "short.gguf")
        subprocess.run([TOY_MODEL, model, "--layers", "1", "--vocab", "512", "--ctx", "32"],
                       check=True, stdout=subprocess.DEVNULL)
        result = kvase("run", "-m", model, "-p", "Hello", "-n", "40", *SMALL, *ONE_THREAD)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        self.assertIn("beyond the context that the model was trained for (32)", result.stderr.decode())

    def test_row_types_change_the_bytes(self):
        sizes = {kind: self.run_json("-n", "1", "-ctk", kind, "-ctv", kind)["kv"]["bytes"] for kind in ("f32", "f16", "bf16")}
        self.assertEqual(sizes["f16"], sizes["bf16"])
        self.assertEqual(sizes["f32"], 2 * sizes["f16"])

    def test_interrupt(self):
        # Ends by itself after many tokens; several seeds, since a toy model may end early.
        for seed in range(20):
            command = [KVASE, "run", "-m", self.model, "-p", "Hello", "-n", "2000000", "--seed", str(seed), *SMALL, *ONE_THREAD,
                       "--json"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                time.sleep(0.5)
                process.send_signal(signal.SIGINT)
                stdout, stderr = process.communicate(timeout=60)
            if process.returncode != 0:
                break
        self.assertEqual(process.returncode, 130, stderr.decode())
        run = json.loads(stdout)
        self.assertEqual(run["finish_reason"], "cancelled")
        self.assertEqual(run["kv"]["capacity"], 64)


class Many(CliTest):
    """One prompt with many seeds, many prompts from a file, and taking up a run that was stopped."""

    def rows(self, *arguments):
        result = kvase("run", "-m", self.model, *SMALL, *ONE_THREAD, "-n", "20", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr.decode(errors="replace"))
        return [json.loads(line) for line in result.stdout.decode().splitlines()]

    def jobs(self, n):
        lines = [json.dumps({"id": f"q{i}", "prompt": "word " * (i + 1), "seed": 50 + i}) for i in range(n)]
        return self.file("jobs.jsonl", ("\n".join(lines) + "\n").encode())

    def test_n_answers_have_n_seeds_and_are_those_given_alone(self):
        rows = self.rows("-p", "Hello", "-np", "4", "-s", "7", "--json")
        self.assertEqual(sorted(row["seed"] for row in rows), [7, 8, 9, 10])
        for row in rows:
            alone = self.rows("-p", "Hello", "-s", str(row["seed"]), "--json")[0]
            self.assertEqual(row["text"], alone["text"])
            self.assertEqual(row["kv"]["bytes"], 4 * alone["kv"]["bytes"])

    def test_a_file_of_prompts_is_answered_as_each_would_be_alone(self):
        rows = self.rows("--prompts", self.jobs(5), "-np", "3")
        self.assertEqual(sorted(row["id"] for row in rows), ["q0", "q1", "q2", "q3", "q4"])
        for row in rows:
            number = int(row["id"][1:])
            alone = self.rows("-p", "word " * (number + 1), "-s", str(50 + number), "--json")[0]
            self.assertEqual(row["text"], alone["text"])

    def test_a_stopped_run_is_taken_up(self):
        out = self.dir / "answers.jsonl"
        self.rows("--prompts", self.jobs(5), "-o", str(out))
        whole = out.read_text().splitlines(keepends=True)
        out.write_text("".join(whole[:2]) + whole[2][:30])  # stopped in the middle of a line
        self.rows("--prompts", self.jobs(5), "-o", str(out))
        answers = {row["id"]: row["text"] for row in map(json.loads, out.read_text().splitlines())}
        self.assertEqual(answers, {row["id"]: row["text"] for row in map(json.loads, whole)})

    def test_bad_jobs(self):
        model = ["run", "-m", self.model, *SMALL, *ONE_THREAD]
        self.refuse([*model, "--prompts", self.file("bad.jsonl", b"nonsense\n")], "line 1", "no JSON object")
        self.refuse([*model, "--prompts", str(self.dir / "nowhere")], "--prompts", "nowhere")
        self.refuse([*model, "--prompts", self.jobs(1), "-p", "Hello"], "allowed: one of them")
        self.refuse([*model, "-p", "Hello", "-o", "x"], "--out without --prompts")
        self.refuse([*model, "-p", "Hello", "-np", "0"], "-np 0", "1..256")
        self.refuse([*model, "--prompts", self.jobs(1), "-o", "/proc/nowhere/x"], "--out")

    def test_stop_strings_end_the_answer(self):
        plain = self.run_json("-n", "60", "--temp", "0")["text"]
        middle = plain[len(plain) // 2:][:4]
        stopped = self.run_json("-n", "60", "--temp", "0", "--stop", middle, "--stop", "not in there at all")
        self.assertEqual(stopped["text"], plain[:plain.index(middle)])
        self.assertEqual(stopped["finish_reason"], "stop")
        self.refuse(["run", "-m", self.model, "-p", "Hello", *SMALL, "--stop", ""], "stop")


class Tables(CliTest):
    def test_policies(self):
        policies = self.json_of(["policies", "--json"])
        names = [policy["name"] for policy in policies]
        for name in ["full", "window", "streaming-llm", "random", "snapkv", "vase-attnv", "vase-dkv", "curdkv", "cur-norms",
                     "evict-large"]:
            self.assertIn(name, names)
        for policy in policies:
            self.assertLessEqual({"name", "paper", "needs", "deterministic", "params"}, policy.keys())
            self.assertIsInstance(policy["deterministic"], bool)
            for param in policy["params"]:
                self.assertLessEqual({"name", "kind", "default", "help"}, param.keys())
            text = kvase("policies", policy["name"]).stdout.decode()
            for word in [policy["name"], *(param["name"] for param in policy["params"]), *policy["needs"]]:
                self.assertIn(word, text)
        self.assertEqual(self.json_of(["policies", "snapkv", "--json"]), [p for p in policies if p["name"] == "snapkv"])
        self.assertIn("mass", next(p for p in policies if p["name"] == "snapkv")["needs"])
        overview = kvase("policies").stdout.decode()
        for name in names:
            self.assertIn(name, overview)

    def test_plan(self):
        plan = self.json_of(["plan", "-m", self.model, "-c", "1000", "--kv", "window", "--kv", "vase-attnv:budget=100",
                             "--kv-interval", "16", "--memory", "1GiB", "--json"])
        self.assertLessEqual({"model", "n_ctx", "weights_bytes", "rows"}, plan.keys())
        self.assertEqual(plan["n_ctx"], 1000)
        self.assertEqual([row["policy"] for row in plan["rows"]], ["full", "window", "vase-attnv:budget=100"])
        slots = [1000, 2048 + 16, 100 + 16]
        for row, n_slots in zip(plan["rows"], slots):
            self.assertLessEqual({"kv_bytes", "side_bytes", "map_bytes", "bytes_per_token", "max_sequences"}, row.keys())
            self.assertEqual(row["bytes_per_token"], 2 * 2 * 2 * 64 * 2)  # K and V, layers, KV heads, size, f16
            self.assertEqual(row["kv_bytes"], n_slots * row["bytes_per_token"])
            free = (1 << 30) - plan["weights_bytes"] - row["map_bytes"]
            self.assertEqual(row["max_sequences"], free // (row["kv_bytes"] + row["side_bytes"]))

    def test_plan_table(self):
        result = kvase("plan", "-m", self.model)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        for word in ["POLICY", "MAX SEQUENCES", "full", "vase-attnv", "snapkv"]:
            self.assertIn(word, result.stdout.decode())

    def test_plan_memory_flag(self):
        for text in ["8", "8GB", "-1GiB", "1.5GiB", "GiB", "99999999999GiB", ""]:
            self.refuse(["plan", "-m", self.model, "--memory", text], "--memory", "allowed")

    def test_budget_in_bytes_is_not_exceeded(self):
        plan = self.json_of(["plan", "-m", self.model, "--kv", "window", "--kv-budget", "2MiB", "--json"])
        row = plan["rows"][1]
        self.assertLessEqual(row["kv_bytes"], 2 << 20)
        self.assertGreater(row["kv_bytes"] + row["bytes_per_token"], 2 << 20)


class Score(CliTest):
    HEAD_DIM, N, N_KV_HEADS, N_HEADS, W = 8, 40, 2, 4, 6

    def setUp(self):
        noise = random.Random(5)
        normal = lambda n: [noise.gauss(0, 1) for _ in range(n)]
        self.path = str(self.dir / "score.gguf")
        write_tensors(self.path, [
            ("k", F32, [self.HEAD_DIM, self.N, self.N_KV_HEADS], normal(self.HEAD_DIM * self.N * self.N_KV_HEADS)),
            ("v", F32, [self.HEAD_DIM, self.N, self.N_KV_HEADS], normal(self.HEAD_DIM * self.N * self.N_KV_HEADS)),
            ("q", F32, [self.HEAD_DIM, self.W, self.N_HEADS], normal(self.HEAD_DIM * self.W * self.N_HEADS)),
            ("pos", I32, [self.N], list(range(self.N))),
        ])

    def score(self, policy, *flags):
        result = kvase("score", "--input", self.path, "--kv", policy, *flags)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return json.loads(result.stdout)

    def test_every_policy(self):
        for policy in ["window", "streaming-llm", "random", "snapkv", "vase-attnv", "vase-dkv", "curdkv", "cur-norms",
                       "evict-large"]:
            with self.subTest(policy=policy):
                result = self.score(policy, "--kv-budget", "20", "--seed", "4")
                self.assertEqual(result["policy"].split(":")[0], policy)
                for field in ("scores", "keep", "approx"):
                    self.assertEqual(len(result[field]), self.N_KV_HEADS)
                for scores, keep in zip(result["scores"], result["keep"]):
                    self.assertEqual(len(scores), self.N)
                    self.assertTrue(all(score is None or math.isfinite(score) for score in scores))
                    self.assertEqual(len(keep), 20)
                    self.assertEqual(keep, sorted(set(keep)))
                    self.assertLessEqual(set(range(self.N - self.W, self.N)), set(keep), "the window stays")

    def test_seed_sequence_layer_and_event_change_random_choices(self):
        base = ["--kv-budget", "20"]
        choices = {json.dumps(self.score("random", *base, *flags)["keep"]) for flags in
                   [[], ["--seed", "1"], ["--seed", str(1 << 40)], ["--sequence", "1"], ["--layer", "1"], ["--event", "1"]]}
        self.assertEqual(len(choices), 6)
        self.assertEqual(self.score("random", *base), self.score("random", *base))

    def test_approximate_tier_takes_the_bytes_of_the_budget(self):
        for policy in ["snapkv+zero", "vase-attnv:n_large=3+zero", "keydiff+zero:route=plain"]:
            with self.subTest(policy=policy):
                result = self.score(policy, "--kv-budget", "20")
                for keep, approx in zip(result["keep"], result["approx"]):
                    self.assertEqual((len(keep), len(approx)), (10, 20))  # 30 keys and 10 values
                    self.assertEqual(approx, sorted(set(approx) - set(keep)))
                    self.assertLessEqual(set(range(self.N - self.W, self.N)), set(keep), "the window stays exact")
        self.refuse(["score", "--input", self.path, "--kv", "snapkv+vector:map=x.gguf"], "+vector", "no model file")

    def test_large_budget_keeps_everything(self):
        for keep in self.score("window", "--kv-budget", "1000")["keep"]:
            self.assertEqual(keep, list(range(self.N)))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    KVASE, TOY_MODEL = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=1)
