#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kvase calibrate as a user sees it: JSON, report, refusals, and maps that do not fit.

usage: calibrate_test.py KVASE KVASE_TOY_MODEL
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # leaves no files in the checkout

from refusal import check_refused

KVASE, TOY_MODEL = "", ""
TEXT = " ".join(str(n * n * 7919 % 99991) for n in range(460))


def kvase(*arguments):
    return subprocess.run([KVASE, *arguments], capture_output=True, timeout=120)


class Calibrate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.dir = Path(cls.folder.name)
        cls.model = cls.toy("toy.gguf")
        cls.text = str(cls.dir / "text.txt")
        Path(cls.text).write_text(TEXT)
        cls.map = str(cls.dir / "toy.kv-ols.gguf")
        cls.result = kvase("calibrate", "-m", cls.model, "-f", cls.text, "-o", cls.map, "-t", "1", "--json")

    @classmethod
    def toy(cls, name, *arguments):
        path = str(cls.dir / name)
        subprocess.run([TOY_MODEL, path, "--arch", "llama", "--layers", "2", "--heads", "4", "--kv-heads", "2",
                        "--head-dim", "32", "--vocab", "512", *arguments], check=True, stdout=subprocess.DEVNULL)
        return path

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def refuse(self, arguments, *words):
        with self.subTest(arguments=arguments):
            check_refused(self, kvase(*arguments), *words)

    def test_json(self):
        self.assertEqual(self.result.returncode, 0, self.result.stderr)
        report = json.loads(self.result.stdout)
        self.assertEqual(report["file"], self.map)
        self.assertEqual(report["n_tokens"], report["n_sequences"] * report["n_ctx"])
        per_layer = report["r2"]["per_layer"]
        self.assertEqual(len(per_layer), 2)
        self.assertAlmostEqual(report["r2"]["mean"], sum(per_layer) / 2)
        self.assertEqual(report["r2"]["min"], min(per_layer))
        for layer, r2 in zip(report["layers"], per_layer):
            self.assertEqual(layer["r2"]["held_out"], r2)
            self.assertEqual(len(layer["heads"]), 2)
            self.assertIn(layer["mode"], ("off", "zero", "linear"))
            self.assertLess(layer["output_error"]["evict"], 1)
        self.assertGreater(Path(self.map).stat().st_size, 2 * 2 * 32 * 32 * 2)

    def test_report(self):
        result = kvase("calibrate", "-m", self.model, "-f", self.text, "-o", str(self.dir / "other.gguf"), "-t", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.decode().splitlines()
        self.assertIn(" sequences of 512, 1 held out", lines[0])
        self.assertTrue(any(line.split()[:3] == ["LAYER", "R2", "WORST"] for line in lines))
        self.assertTrue(any(line.split()[:1] == ["mean"] for line in lines))
        self.assertIn("kvase: warning: ", result.stderr.decode())

    def test_the_same_text_gives_the_same_file(self):
        again = str(self.dir / "again.gguf")
        kvase("calibrate", "-m", self.model, "-f", self.text, "-o", again, "-t", "2")
        self.assertEqual(Path(again).read_bytes(), Path(self.map).read_bytes())

    def test_refusals(self):
        command = ["calibrate", "-m", self.model, "-f", self.text, "-o", str(self.dir / "none.gguf")]
        self.refuse(command[:1] + command[3:], "no model given")
        self.refuse(command[:3] + command[5:], "no text given, allowed: -f FILE")
        self.refuse(command[:5], "no file for the maps given, allowed: -o FILE")
        self.refuse(command + ["-c", "511"], "-c 511, allowed: 512..4096")
        self.refuse(command + ["-c", "0"], "-c 0, allowed: 512..4096")
        self.refuse(command + ["--tokens", "1000"], "found 1000 tokens of text, allowed:")
        self.refuse(command + ["--ridge", "-1"], "--ridge -1, allowed: 0 or more")
        self.refuse(command + ["--ridge", "nan"], "--ridge")
        self.refuse(command[:-1] + [str(self.dir / "no" / "map.gguf")], "cannot write the map")
        self.refuse(command[:3] + ["-f", str(self.dir / "no.txt")] + command[5:], "no.txt")
        self.assertFalse((self.dir / "none.gguf").exists())

    def test_maps_that_do_not_fit(self):
        def plan(model, map_file):
            return ["plan", "-m", model, "--kv", "vase-attnv+vector:map=" + map_file]

        damaged = str(self.dir / "damaged.gguf")
        Path(damaged).write_bytes(Path(self.map).read_bytes()[:-1])
        self.refuse(plan(self.model, damaged), damaged, "file is truncated in tensor")
        self.refuse(plan(self.toy("other.gguf", "--seed", "2"), self.map), "found a map of another model")
        self.refuse(plan(self.toy("turned.gguf", "--freq-base", "500000"), self.map),
                    "map of another RoPE setting: RoPE base: found 10000, allowed: 500000")
        self.refuse(plan(self.model, self.model), "found no value map")
        self.refuse(plan(self.model, str(self.dir / "no.gguf")), "cannot read")


if __name__ == "__main__":
    KVASE, TOY_MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
