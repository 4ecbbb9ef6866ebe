#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kvase bench as a user sees it: its rows, that its bytes are those of kvase plan, its one error line.

usage: bench_test.py KVASE KVASE_TOY_MODEL
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from xml.etree import ElementTree

sys.dont_write_bytecode = True  # leaves no files in the checkout

from refusal import check_refused

KVASE, TOY_MODEL = "", ""
N_LAYERS, N_KV_HEADS, HEAD_DIM = 2, 2, 64
SHAPE = ["--kv-budget", "48", "--kv-interval", "16"]
# One thread: those of a busy machine wait for each other.
QUICK = ["-t", "1", "--n-prompt", "40", "--repeat", "2", *SHAPE]
TWO_CONTEXTS = [*QUICK, "-c", "32,96", "--n-gen", "16"]
FIELDS = {
    "engine", "policy", "n_ctx", "n_seq", "decode_tps", "prefill_tps", "kv_bytes", "peak_rss_bytes", "stats_share", "evict_share",
    "attn_read_fraction"
}


def kvase(*arguments):
    return subprocess.run([KVASE, *arguments], capture_output=True, timeout=120)


def children_of(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class BenchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = str(Path(cls.folder.name) / "toy.gguf")
        subprocess.run(
            [TOY_MODEL, cls.model, "--arch", "qwen3", "--layers", str(N_LAYERS), "--heads", "4", "--kv-heads", str(N_KV_HEADS),
             "--head-dim", str(HEAD_DIM), "--type", "q8_0", "--vocab", "512", "--ctx", "8192"],
            check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def bench(self, *arguments):
        result = kvase("bench", "-m", self.model, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr.decode(errors="replace"))
        return result

    def rows(self, *arguments):
        result = self.bench("--json", *arguments)
        return [json.loads(line) for line in result.stdout.decode("utf-8").splitlines()]

    def plan_row(self, policy, n_ctx):
        result = kvase("plan", "-m", self.model, "-c", str(n_ctx), "--kv", policy, *SHAPE, "--json")
        return next(row for row in json.loads(result.stdout)["rows"] if row["policy"] == policy)

    def refuse(self, arguments, *words, status=2):
        with self.subTest(arguments=arguments):
            check_refused(self, kvase("bench", *arguments), *words, status=status)


class Rows(BenchTest):
    def test_one_row_per_engine_and_context(self):
        rows = self.rows(*TWO_CONTEXTS, "--peer")
        self.assertEqual([(row["engine"], row["policy"], row["n_ctx"]) for row in rows], [
            (engine, policy, n_ctx) for n_ctx in (32, 96)
            for engine, policy in (("kvase", "full"), ("kvase", "vase-attnv"), ("libllama", "full"))])
        for row in rows:
            self.assertLessEqual(FIELDS, set(row))
            self.assertEqual(row["n_seq"], 1)
            for field in ["decode_tps", "prefill_tps", "prompt_tps", "decode_vs_libllama", "prefill_vs_libllama",
                          "prompt_vs_libllama"]:
                self.assertGreater(row[field], 0, field)
            self.assertGreater(row["peak_rss_bytes"], row["kv_bytes"])
            for field in ["decode_cpu_ms", "prefill_cpu_ms", "prompt_cpu_ms"]:
                self.assertGreater(row[field], 0, field)
            self.assertEqual([len(row[field]) for field in ("decode_tps_rounds", "prompt_tps_rounds")], [2, 2])
            self.assertGreaterEqual(row["slowest_step_ms"], row["median_step_ms"])
            self.assertEqual(row["n_read"], row["n_ctx"] - 4)
            self.assertGreater(row["read_gb_per_s"], 0)

        for row in rows:
            if row["engine"] == "libllama":
                # Its context is a multiple of 256 cells.
                self.assertEqual(row["kv_bytes"], 256 * N_LAYERS * N_KV_HEADS * HEAD_DIM * 2 * 2)
                self.assertEqual(row["decode_vs_libllama"], 1)
                for field in ["evict_share", "stats_share", "attn_read_fraction", "side_bytes"]:
                    self.assertIsNone(row[field], field)
                self.assertIn("flash attention", row["note"])
                continue
            n_positions = row["n_ctx"] + 2 * 16
            self.assertEqual(row["n_positions"], n_positions)
            self.assertGreater(row["attn_read_fraction"], 0)
            self.assertLess(row["stats_share"], 1)
            plan = self.plan_row(row["policy"], n_positions)
            for field in ("kv_bytes", "side_bytes", "map_bytes"):
                self.assertEqual(row[field], plan[field], field)

        shares = {(row["policy"], row["n_ctx"]): row["evict_share"] for row in rows if row["engine"] == "kvase"}
        self.assertEqual(shares["full", 96], 0)
        self.assertGreater(shares["vase-attnv", 96], 0)  # 96 tokens fill 64 slots
        self.assertLess(shares["vase-attnv", 96], 1)

    def test_contexts_are_sorted_and_policies_told_apart(self):
        rows = self.rows(*QUICK, "-c", "24,8,24", "--n-gen", "16", "--kv", "window", "--kv", "snapkv:smooth=max", "--kv", "window")
        self.assertEqual([(row["policy"], row["n_ctx"]) for row in rows],
                         [("window", 8), ("snapkv:smooth=max", 8), ("window", 24), ("snapkv:smooth=max", 24)])
        self.assertTrue(all(row["decode_vs_libllama"] is None for row in rows))

    def test_sequences_together(self):
        rows = self.rows(*QUICK, "-c", "40", "--n-gen", "16", "--n-seq", "3", "--kv", "window", "--peer")
        self.assertEqual([row["n_seq"] for row in rows], [3, 3])
        self.assertEqual(rows[0]["kv_bytes"], 3 * self.plan_row("window", 40)["kv_bytes"])
        self.assertEqual(rows[1]["kv_bytes"], 3 * 256 * N_LAYERS * N_KV_HEADS * HEAD_DIM * 2 * 2)

    def test_a_long_context_is_pretended(self):
        rows = self.rows(*QUICK, "-c", "5000", "--n-fill", "70", "--n-gen", "16", "--kv", "full", "--kv", "vase-attnv", "--peer")
        # A policy that evicts reads two intervals more than it keeps.
        self.assertEqual([row["n_read"] for row in rows], [70, 80, 70])
        self.assertEqual(rows[0]["kv_bytes"], self.plan_row("full", 5032)["kv_bytes"])
        # The peer's cells are all there: a step over 5,000 of them takes far longer than one over 70.
        short = self.rows(*QUICK, "-c", "70", "--n-gen", "16", "--kv", "full", "--peer")
        for row, less in zip((rows[0], rows[2]), short):
            self.assertGreater(row["decode_cpu_ms"], 1.3 * less["decode_cpu_ms"], row["engine"])

    def test_long_contexts_of_several_sequences(self):
        rows = self.rows(*QUICK, "-c", "1000", "--n-fill", "70", "--n-seq", "3", "--n-gen", "16", "--kv", "full", "--peer")
        self.assertEqual([row["n_read"] for row in rows], [70, 70])
        self.assertIn("one pool of cells", rows[1]["note"])

    def test_svg(self):
        path = Path(self.folder.name) / "speed.svg"
        self.bench(*TWO_CONTEXTS, "--peer", "--svg", str(path))
        texts = [element.text for element in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]
        for word in ["full", "vase-attnv", "libllama", "32", "96", "tokens per second"]:
            self.assertIn(word, texts)

    def test_a_context_of_one_token(self):
        rows = self.rows(*QUICK, "-c", "1", "--n-gen", "16", "--peer")
        self.assertEqual([row["n_ctx"] for row in rows], [1, 1, 1])

    def test_rounds_hold_whole_intervals(self):
        result = self.bench(*QUICK, "-c", "8", "--n-gen", "20", "--kv", "window", "--kv", "window:interval=16", "--json")
        self.assertIn("--n-gen 20 becomes 32", result.stderr.decode())
        self.assertTrue(all(json.loads(line)["n_gen"] == 32 for line in result.stdout.splitlines()))

    def test_table(self):
        result = self.bench(*TWO_CONTEXTS, "--peer")
        text = result.stdout.decode("utf-8")
        self.assertEqual(result.stderr, b"")
        for word in ["ENGINE", "DECODE", "VS PEER", "PROMPT 40", "PEAK RSS", "vase-attnv", "libllama", "flash attention"]:
            self.assertIn(word, text)
        self.assertNotIn("VS PEER", self.bench(*QUICK, "-c", "8", "--n-gen", "16").stdout.decode("utf-8"))


class BadInput(BenchTest):
    def test_flags(self):
        self.refuse([], "no model", "-m")
        self.refuse(["-m", self.model + ".not"], "toy.gguf.not")
        for flags, *words in [
            (["-c", "0"], "-c", "0", "from 1"),
            (["-c", "128,0"], "128,0", "from 1"),
            (["-c", ""], "-c"),
            (["-c", "128,"], "-c"),
            (["-c", "128,,256"], "-c"),
            (["-c", "many"], "many"),
            (["-c", "99999999"], "99999999", "16777216"),
            (["-c", "16000000", "--n-seq", "256"], "-c 16000000", "bytes"),
            (["--n-seq", "0"], "--n-seq 0", "1..256"),
            (["--n-seq", "257"], "--n-seq 257", "1..256"),
            (["--n-gen", "0"], "--n-gen 0"),
            (["--n-gen", "70000"], "--n-gen 70000", "65536"),
            (["--n-prompt", "0"], "--n-prompt 0"),
            (["--repeat", "0"], "--repeat 0", "1..100"),
            (["-t", "513"], "-t 513", "1..512"),
            (["-ub", "0"], "-ub 0", "1..4096"),
            (["--kv", "nope"], "nope"),
            (["--kv", "window:interval=257", "--kv", "snapkv:interval=509"], "--n-gen 64", "intervals"),
            (["--kv-budget", "8"], "--kv-budget 8"),
            (["--n-fill", "0"], "--n-fill 0", "1..16777216"),
            (["--svg", "/nowhere/speed.svg"], "--svg /nowhere/speed.svg", "No such file"),
            (["stray"], "stray", "kvase bench --help"),
        ]:
            self.refuse(["-m", self.model, *flags], *words, "allowed" if flags != ["stray"] else "")

    def test_a_switch_before_a_flag_of_two_letters(self):
        self.refuse(["-m", self.model, "--peer", "-ub", "0"], "-ub 0")

    def test_a_process_that_dies(self):
        process = subprocess.Popen(
            [KVASE, "bench", "-m", self.model, "-t", "1", "-c", "4096", "--n-gen", "65536", "--repeat", "100", "--kv", "window"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            deadline = time.monotonic() + 60
            while not children_of(process.pid):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            os.kill(children_of(process.pid)[0], signal.SIGKILL)
            out, message = process.communicate(timeout=60)
        finally:
            process.kill()
        self.assertEqual(process.returncode, 1)
        self.assertEqual(out, b"")
        lines = message.decode().splitlines()
        self.assertEqual(len(lines), 1, message)
        self.assertTrue(lines[0].startswith("kvase: error: window: its process ended by signal 9 (Killed) while "), message)


if __name__ == "__main__":
    KVASE, TOY_MODEL = sys.argv[1], sys.argv[2]
    unittest.main(argv=sys.argv[:1])
