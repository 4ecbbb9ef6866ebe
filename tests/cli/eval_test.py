#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kvase eval fidelity as a user sees it: its rows, that stopped and divided runs give those of a whole one, its one error line.

usage: eval_test.py KVASE KVASE_TOY_MODEL
"""

import json
import os
import pty
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # leaves no files in the checkout

from refusal import check_refused

KVASE, TOY_MODEL = "", ""
N_TOKENS = 256
FIELDS = {"policy", "budget", "kv_bytes", "side_bytes", "map_bytes", "n_tokens", "nll", "nll_full", "kl_mean", "kl_p99",
          "top1_agreement", "last_quarter", "text", "seed", "ms_per_token", "evict_ms"}
TIMES = {"ms_per_token", "ms_per_token_full", "evict_ms", "evict_share"}
POLICIES = ["--kv", "window", "--kv", "vase-attnv", "--kv", "snapkv", "--kv-budget", "1/2,1/4", "--kv-interval", "16"]


def without_times(row):
    return {field: value for field, value in row.items() if field not in TIMES}


class EvalTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.dir = Path(cls.folder.name)
        cls.model = str(cls.dir / "toy.gguf")
        subprocess.run(
            [TOY_MODEL, cls.model, "--arch", "llama", "--layers", "2", "--heads", "4", "--kv-heads", "2", "--head-dim", "32",
             "--type", "q8_0", "--vocab", "512"],
            check=True, stdout=subprocess.DEVNULL)
        letters = random.Random(1)
        for name in ("one.txt", "two.txt"):
            text = "".join(letters.choice("etaoin shrdlu") for _ in range(3000))
            (cls.dir / name).write_text(text, encoding="utf-8")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def command(self, *arguments, texts=("one.txt", "two.txt")):
        files = [word for name in texts for word in ("-f", str(self.dir / name))]
        return [KVASE, "eval", "fidelity", "-m", self.model, *files, "-t", "1", "-c", str(N_TOKENS), *arguments]

    def eval(self, *arguments, **options):
        result = subprocess.run(self.command(*arguments, **options), capture_output=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr.decode(errors="replace"))
        return result.stdout.decode("utf-8")

    def merge(self, *arguments):
        result = subprocess.run([KVASE, "eval", "merge", *arguments], capture_output=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr.decode(errors="replace"))

    def refuse(self, arguments, *words):
        with self.subTest(arguments=arguments):
            result = subprocess.run([KVASE, "eval", *arguments], capture_output=True, timeout=120)
            check_refused(self, result, *words)

    def rows_in(self, folder):
        first, *rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
        self.assertEqual(first["definition"]["kind"], "fidelity")
        return {row["key"]: without_times(row) for row in rows}

    def whole_run(self):
        folder = self.dir / "whole"
        if not folder.exists():
            self.eval(*POLICIES, "-s", "1,2", "--out", str(folder))
        return self.rows_in(folder)

    def test_rows(self):
        rows = [json.loads(line) for line in self.eval(*POLICIES, "-s", "1,2", "--json").splitlines()]
        self.assertEqual(len(rows), 2 * 2 * (1 + 2 + 1))
        for row in rows:
            self.assertLessEqual(FIELDS, row.keys())
            self.assertEqual(row["n_tokens"], N_TOKENS)
            self.assertEqual(row["kv_bytes"], row["kv_bytes_full"] * {"1/2": 0.5, "1/4": 0.25}[row["budget_option"]])
            self.assertGreater(row["kl_mean"], 0)
            self.assertGreater(row["n_evictions"], 0)

    def test_table(self):
        text = self.eval("--kv", "window", "--kv-interval", "16", texts=["one.txt"])
        self.assertIn("one.txt", text)
        self.assertIn("window", text)
        self.assertIn("1/4 (", text)

    def test_report(self):
        self.whole_run()
        folder = self.dir / "whole"
        self.assertEqual({path.name for path in folder.iterdir()},
                         {"rows.jsonl", "report.md", "report.html", "kl-1.svg", "kl-2.svg", "cost.svg"})
        text = (folder / "report.md").read_text(encoding="utf-8")
        self.assertIn("Differences from vase-attnv", text)
        self.assertIn("kvase eval fidelity -m ", text)

    def test_a_torn_run_is_taken_up(self):
        whole = self.whole_run()
        folder = self.dir / "torn"
        folder.mkdir()
        content = (self.dir / "whole" / "rows.jsonl").read_bytes()
        (folder / "rows.jsonl").write_bytes(content[:len(content) * 2 // 5])
        self.eval(*POLICIES, "-s", "1,2", "--out", str(folder))
        self.assertEqual(self.rows_in(folder), whole)

    def test_a_stopped_run_is_taken_up(self):
        folder = self.dir / "stopped"
        arguments = self.command(*POLICIES, "-s", "1,2", "--out", str(folder), "--parallel", "1")
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        path = folder / "rows.jsonl"
        while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < 3):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.eval(*POLICIES, "-s", "1,2", "--out", str(folder))
        self.assertEqual(self.rows_in(folder), self.whole_run())

    def test_shards_merge_to_the_whole(self):
        parts = [str(self.dir / f"part{index}") for index in (1, 2, 3)]
        for index, part in enumerate(parts, start=1):
            self.eval(*POLICIES, "-s", "1,2", "--out", part, "--shard", f"{index}/3")
        merged = self.dir / "merged"
        self.merge(*parts, "--out", str(merged))
        self.assertEqual(self.rows_in(merged), self.whole_run())
        self.assertIn("Differences from vase-attnv", (merged / "report.md").read_text(encoding="utf-8"))

    def test_merge_chooses_policies(self):
        self.whole_run()
        chosen = self.dir / "chosen"
        self.merge(str(self.dir / "whole"), "--kv", "window", "--kv", "snapkv", "--out", str(chosen), "--reference", "window")
        self.assertEqual({row["policy"] for row in self.rows_in(chosen).values()}, {"window", "snapkv"})
        self.assertIn("Differences from window", (chosen / "report.md").read_text(encoding="utf-8"))

    def test_more_policies_may_be_added(self):
        folder = self.dir / "grown"
        self.eval("--kv", "window", "--kv-interval", "16", "--out", str(folder))
        self.eval("--kv", "knorm", "--kv-interval", "16", "--out", str(folder))
        self.assertEqual({row["policy"] for row in self.rows_in(folder).values()}, {"window", "knorm"})

    def test_progress_on_a_terminal(self):
        outer, inner = pty.openpty()
        process = subprocess.Popen(self.command("--kv", "window", "--kv-interval", "16"), stdout=subprocess.DEVNULL, stderr=inner)
        os.close(inner)
        shown = b""
        try:
            while piece := os.read(outer, 4096):
                shown += piece
        except OSError:  # the other end is closed
            pass
        os.close(outer)
        self.assertEqual(process.wait(), 0)
        self.assertIn(b"of 256 tokens", shown)

    def test_refuses(self):
        text = ["-f", str(self.dir / "one.txt")]
        model = ["-m", self.model]
        self.refuse([], "no measurement", "fidelity, math, needle, loops, merge")
        self.refuse(["bogus"], "unknown measurement", "fidelity, math, needle, loops, merge")
        self.refuse(["fidelity", *text], "no model")
        self.refuse(["fidelity", *model], "no text given", "-f FILE")
        self.refuse(["fidelity", *model, "-f", "none.txt"], "none.txt")
        self.refuse(["fidelity", *model, *text, "-c", "100000"], "one.txt: found", "at least 100001")
        self.refuse(["fidelity", *model, *text, "-c", "4"], "-c 4", "16..")
        self.refuse(["fidelity", *model, *text, "--kv", "full"], "evicts nothing")
        self.refuse(["fidelity", *model, *text, "--kv", "nonsense"], "nonsense")
        self.refuse(["fidelity", *model, *text, "--kv-budget", "2/1"], "2/1", "a fraction")
        self.refuse(["fidelity", *model, *text, "--kv-budget", "1/4,"], "budget", "allowed")
        self.refuse(["fidelity", *model, *text, "--parallel", "0"], "--parallel 0", "1..64")
        self.refuse(["fidelity", *model, *text, "--shard", "3/2"], "--shard", "i/n")
        self.refuse(["fidelity", *model, *text, *text], "twice")
        self.refuse(["fidelity", *model, *text, "--kv", "window", "--kv", "window"], "twice")
        self.refuse(["merge", "--out", str(self.dir / "x")], "no folder")
        self.refuse(["merge", str(self.dir)], "no --out")
        self.refuse(["merge", str(self.dir / "none"), "--out", str(self.dir / "x")], "rows.jsonl")

    def test_refuses_another_definition(self):
        self.whole_run()
        out = ["--out", str(self.dir / "whole")]
        files = ["-f", str(self.dir / "one.txt"), "-f", str(self.dir / "two.txt")]
        self.refuse(["fidelity", "-m", self.model, *files, "-c", "128", "--kv", "window", "--kv-budget", "1/2", "--kv-interval", "16", *out], "n_tokens 256", "this run has 128")
        self.refuse(["merge", str(self.dir / "whole"), "--kv", "h2o", "--out", str(self.dir / "x")], "--kv h2o", "allowed: ")


if __name__ == "__main__":
    KVASE, TOY_MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
