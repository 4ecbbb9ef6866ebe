#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`kvase eval math`, `needle` and `loops` as a user sees them: rows, grading, resuming, shards, and what is refused.

usage: eval_answers_test.py KVASE KVASE_TOY_MODEL
"""

import json
import os
import re
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
# One thread: threads of a busy machine wait for each other.
FLAGS = ["--kv-interval", "16", "-t", "1"]
POLICIES = ["--kv", "full", "--kv", "window", "--kv-budget", "32"]
QUESTIONS = [{"question": "2 + 2?", "answer": "4", "id": "a"}, {"problem": "3 * 3?", "answer": "so 9\n#### 9", "id": "b"},
             {"problem": "1/2 + 1/2?", "answer": 1, "id": "c"}]


def kvase(*arguments):
    return subprocess.run([KVASE, "eval", *arguments], capture_output=True, timeout=120)


class EvalTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.dir = Path(cls.folder.name)
        cls.model = str(cls.dir / "toy.gguf")
        subprocess.run([TOY_MODEL, cls.model, "--layers", "1", "--vocab", "512"], check=True, stdout=subprocess.DEVNULL)
        cls.questions = cls.write("questions.jsonl", QUESTIONS)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def write(cls, name, rows):
        path = cls.dir / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    def measure(self, kind, *arguments):
        """The summaries, one per policy and budget."""
        result = kvase(kind, "-m", self.model, *FLAGS, "--json", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr.decode(errors="replace"))
        return [json.loads(line) for line in result.stdout.splitlines()]

    def rows(self, out):
        """Rows of a folder by key; texts hold any bytes that a toy writes."""
        lines = [json.loads(line) for line in (self.dir / out / "rows.jsonl").read_bytes().splitlines()]
        self.assertIn("definition", lines[0])
        return {row["key"]: row for row in lines[1:]}

    def out(self, name):
        return ["--out", str(self.dir / name)]

    def refuse(self, arguments, *words):
        with self.subTest(arguments=arguments):
            check_refused(self, kvase(*arguments), "allowed", *words)


class Math(EvalTest):
    def setUp(self):
        self.ask = ["-f", self.questions, "-n", "40", *POLICIES]

    def test_rows_and_summaries(self):
        summaries = self.measure("math", *self.ask, "--samples", "2", "-np", "4", *self.out("rows"))
        self.assertEqual({(row["policy"], row["budget"]) for row in summaries}, {("full", None), ("window", 32)})
        for summary in summaries:
            self.assertEqual((summary["n"], summary["n_cases"], summary["seeds"]), (6, 3, [0]))
            self.assertEqual(sum(summary["finish_reasons"].values()), 6)
            self.assertEqual(summary["settings"]["kind"], "math")
            self.assertGreater(summary["kv_bytes"], 0)
            self.assertEqual(summary["n_evicted"], 0 if summary["policy"] == "full" else 6)
        rows = self.rows("rows")
        self.assertEqual(len(rows), 12)
        self.assertEqual({row["gold"] for row in rows.values()}, {"4", "9", "1"})
        self.assertEqual({(row["case"], row["sample"]) for row in rows.values()}, {(c, s) for c in "abc" for s in (0, 1)})
        report = (self.dir / "rows" / "report.md").read_text()
        for word in ["window", "Differences from full", "kvase eval math"]:
            self.assertIn(word, report)

    def test_a_right_answer_counts(self):
        # A toy writes what it writes; the file then says that this was right, and that something else was.
        ask = ["-n", "60", "--raw", "--kv", "full", "--temp", "0"]
        question = {"question": "2 + 2?", "answer": "4"}
        self.measure("math", "-f", self.write("one.jsonl", [question]), *ask, *self.out("cut off"))
        row, = self.rows("cut off").values()
        self.assertEqual((row["finish_reason"], row["answer_source"], row["score"]), ("length", "none", 0))
        number, behind = re.findall("w([0-9]+)", row["text"])[:2]
        for gold, score in [(number, 1), ("0" + number, 1), (number + "1", 0)]:
            path = self.write(f"{gold}.jsonl", [{"question": "2 + 2?", "answer": gold}])
            summary, = self.measure("math", "-f", path, *ask, "--stop", "w" + behind, *self.out(gold))
            row, = self.rows(gold).values()
            self.assertEqual((row["answer"], row["answer_source"], row["finish_reason"]), (number, "last_number", "stop"))
            self.assertEqual((row["score"], summary["score"]), (score, score))

    def test_prompt_takes_the_question(self):
        self.measure("math", "-f", self.questions, "-n", "1", "--kv", "full", "--raw", "--prompt", "{question}", *self.out("short"))
        self.measure("math", "-f", self.questions, "-n", "1", "--kv", "full", "--raw", "--prompt", "Q: {question} A:", *self.out("long"))
        short, long = self.rows("short"), self.rows("long")
        for key, row in short.items():
            self.assertLess(row["n_prompt"], long[key]["n_prompt"])

    def test_resumed_equals_uninterrupted(self):
        self.measure("math", *self.ask, *self.out("whole"))
        self.measure("math", *self.ask, "--n-questions", "1", *self.out("parts"))
        self.assertEqual(len(self.rows("parts")), 2)
        again = self.measure("math", *self.ask, *self.out("parts"))
        self.assertEqual(self.rows("parts"), self.rows("whole"))
        self.assertEqual(self.measure("math", *self.ask, *self.out("whole")), again, "nothing was left to do")

    def test_interrupted_keeps_what_is_done(self):
        ask = ["-f", self.write("many.jsonl", [{"question": f"{n} + 1?", "answer": n + 1} for n in range(40)]), "-n", "400"]
        command = [KVASE, "eval", "math", "-m", self.model, *FLAGS, *ask, *POLICIES, *self.out("stopped")]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        path = self.dir / "stopped" / "rows.jsonl"
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if path.exists() and path.read_bytes().count(b"\n") > 3:
                process.send_signal(signal.SIGINT)
                break
            time.sleep(0.01)
        self.assertIn(process.wait(timeout=60), (0, 130))
        self.measure("math", *ask, *POLICIES, *self.out("stopped"))
        self.measure("math", *ask, *POLICIES, *self.out("never stopped"))
        self.assertEqual(self.rows("stopped"), self.rows("never stopped"))

    def test_shards_merge_to_the_whole(self):
        self.measure("math", *self.ask, *self.out("unsharded"))
        for index in (1, 2):
            self.measure("math", *self.ask, "--shard", f"{index}/2", *self.out(f"shard{index}"))
        self.assertEqual(len(self.rows("shard1")) + len(self.rows("shard2")), 6)
        folders = [str(self.dir / f"shard{index}") for index in (1, 2)]
        self.assertEqual(kvase("merge", *folders, *self.out("merged")).returncode, 0)
        self.assertEqual(self.rows("merged"), self.rows("unsharded"))

    def test_other_settings_do_not_mix(self):
        self.measure("math", *self.ask, *self.out("mixed"))
        self.refuse(["math", "-m", self.model, *FLAGS, *self.ask, "--temp", "0", *self.out("mixed")], "temp")
        self.measure("math", *self.ask[:-1], "48", *self.out("mixed"))
        self.assertEqual({row["budget"] for row in self.rows("mixed").values()}, {None, 32, 48})

    def test_refusals(self):
        model = ["-m", self.model]
        self.refuse(["math", *model], "no questions given")
        self.refuse(["math", "-f", self.questions], "no model given")
        self.refuse(["math", *model, "-f", self.questions, "--n-questions", "4"], "--n-questions 4", "3")
        self.refuse(["math", *model, "-f", self.questions, "--prompt", "x"], "{question}")
        self.refuse(["math", *model, "-f", self.questions, "--samples", "0"], "--samples 0")
        self.refuse(["math", *model, "-f", self.questions, "--reference", "snapkv"], "--reference snapkv")
        self.refuse(["math", *model, "-f", self.questions, "--raw", "--think", "on"], "--raw")
        self.refuse(["math", *model, "-f", self.questions, "--kv", "nonsense"], "nonsense")
        self.refuse(["math", *model, "-f", self.questions, "--shard", "3/2"], "--shard")
        self.refuse(["math", *model, "-f", self.write("bad.jsonl", [{"question": "?"}])], "line 1", "answer")


class Needle(EvalTest):
    def test_rows_and_grid(self):
        grid = ["--lengths", "60,120", "--depths", "0,0.5", "--needles", "2", "-n", "8", *POLICIES, "-np", "8"]
        summaries = self.measure("needle", *grid, *self.out("needles"))
        cells = {(row["policy"], row["budget"], row["length"], row["depth"]) for row in summaries}
        self.assertEqual(cells, {(p, b, n, d) for p, b in (("full", None), ("window", 32)) for n in (60, 120) for d in (0, 0.5)})
        for row in self.rows("needles").values():
            self.assertRegex(row["needle"], "^[0-9]{5}$")
            self.assertGreaterEqual(row["n_prompt"], row["length"])
            self.assertEqual(row["score"], float(row["needle"] in re.findall("[0-9]+", row["text"].replace(",", ""))))
        table = kvase("needle", "-m", self.model, *FLAGS, *grid, *self.out("needles")).stdout.decode()
        self.assertIn("depth 0.5", table)

    def test_filler_of_a_file(self):
        book = self.dir / "book.txt"
        book.write_text("A cat sat. A dog ran! " * 50)
        flags = ["--lengths", "80", "--depths", "1", "--needles", "1", "-n", "1", "--kv", "full", "--raw"]
        self.assertEqual(len(self.measure("needle", *flags, "-f", str(book))), 1)
        empty = self.dir / "empty.txt"
        empty.write_text(" \n")
        self.refuse(["needle", "-m", self.model, *flags, "-f", str(empty)], "found nothing")

    def test_refusals(self):
        for flag, value in [("--needles", "0"), ("--needles", "25"), ("--depths", "1.5"), ("--depths", "0,x"), ("--lengths", "0")]:
            self.refuse(["needle", "-m", self.model, flag, value], flag)


class Loops(EvalTest):
    def test_rows(self):
        summaries = self.measure("loops", "-n", "300", "--temp", "0", *POLICIES, "-np", "8", *self.out("loops"))
        rows = self.rows("loops")
        self.assertEqual(len(rows), 16)
        for summary in summaries:
            mine = [row for row in rows.values() if row["policy"] == summary["policy"]]
            self.assertAlmostEqual(summary["score"] + summary["loop_share"], 1)
            self.assertAlmostEqual(summary["score"], sum(row["score"] for row in mine) / 8)
        for row in rows.values():
            self.assertEqual(row["loop_begin"] is None, row["score"] == 1)

    def test_a_short_memory_falls_into_repetition(self):
        # With two tokens in the cache the next one follows from these alone, so the text must come round.
        model = str(self.dir / "small.gguf")
        shape = ["--layers", "1", "--vocab", "300", "--embd", "32", "--heads", "1", "--kv-heads", "1", "--seed", "2"]
        subprocess.run([TOY_MODEL, model, *shape], check=True, stdout=subprocess.DEVNULL)
        prompts = self.write("prompts.jsonl", [{"prompt": "la la", "id": "song"}])
        cache = ["--kv", "full", "--kv", "window", "--kv-budget", "2", "--kv-interval", "1"]
        result = kvase("loops", "-m", model, "-f", prompts, "--raw", "-n", "600", "--temp", "0", "-t", "1", "--json", *cache)
        full, window = sorted((json.loads(line) for line in result.stdout.splitlines()), key=lambda row: row["policy"])
        self.assertEqual((full["score"], full["loop_share"], full["tokens_until_loop_mean"]), (1, 0, None))
        self.assertEqual((window["score"], window["loop_share"]), (0, 1))
        self.assertLess(window["tokens_until_loop_mean"], 100)

    def test_refusals(self):
        self.refuse(["loops"], "no model given")
        self.refuse(["loops", "-m", self.model, "-n", "-2"], "--predict -2")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    KVASE, TOY_MODEL = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=1)
