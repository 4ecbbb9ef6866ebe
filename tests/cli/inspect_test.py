#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The page of `kvase inspect`: it stands alone, and its data says what the cache held.

usage: inspect_test.py KVASE KVASE_TOY_MODEL
"""

import base64
import html.parser
import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # leaves no files in the checkout

from refusal import check_refused

KVASE, TOY_MODEL = "", ""
NO_EVENT = 65535
TEXT = "One <b>bold</b> & 'quoted' </script><script>alert(1)</script> tab\there, na\u00efve \u65e5\u672c \U0001f41d. "
SHAPE = ["--kv-budget", "48", "--kv-interval", "16", "-t", "1"]


class Page(html.parser.HTMLParser):
    """Tags that open and close as they should, scripts, and everything that a browser would fetch."""

    VOID = {"meta", "input", "link", "br", "img"}

    def __init__(self, text):
        super().__init__()
        self.open, self.scripts, self.fetched = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.fetched += [value for name, value in attrs if name in ("src", "href", "srcset", "data")]
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> in {self.open}"
        self.open.pop()

    def handle_data(self, text):
        if self.open and self.open[-1] == "script":
            attributes, before = self.scripts[-1]
            self.scripts[-1] = (attributes, before + text)


def kvase(*arguments):
    return subprocess.run([KVASE, *arguments], capture_output=True, timeout=120)


def u16(text):
    raw = base64.b64decode(text, validate=True)
    return list(struct.unpack(f"<{len(raw) // 2}H", raw))


def bf16(text):
    return [struct.unpack("<f", struct.pack("<I", half << 16))[0] for half in u16(text)]


class InspectTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.dir = Path(cls.folder.name)
        cls.model = str(cls.dir / "toy.gguf")
        subprocess.run(
            [TOY_MODEL, cls.model, "--layers", "2", "--heads", "4", "--kv-heads", "2", "--head-dim", "64", "--type", "q8_0",
             "--vocab", "512"], check=True, stdout=subprocess.DEVNULL)
        cls.text = cls.dir / "text.txt"
        cls.text.write_text(TEXT * 12, encoding="utf-8")
        cls.out = cls.dir / "page.html"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def page(self, *flags):
        self.out.unlink(missing_ok=True)
        result = kvase("inspect", "-m", self.model, "-f", str(self.text), "-s", "5", *SHAPE, *flags, "-o", str(self.out))
        self.assertEqual(result.returncode, 0, result.stderr.decode(errors="replace"))
        self.assertIn(str(self.out), result.stderr.decode())
        text = self.out.read_text(encoding="utf-8")
        page = Page(text)
        self.assertEqual(len(page.scripts), 2)
        self.assertEqual(page.fetched, [])
        self.assertEqual(page.scripts[0][0], {"type": "application/json", "id": "data"})
        self.assertEqual([url for url in re.findall(r"https?:[^\s\"'<]*", page.scripts[1][1])], [])
        return json.loads(page.scripts[0][1])

    def heads(self, data):
        for layer in data["layers"]:
            for head in layer["heads"]:
                yield layer["events"], u16(head["left"]), head

    def test_what_is_gone_is_what_the_method_says(self):
        data = self.page("--kv", "streaming-llm", "-n", "20", "--ignore-eos")
        run = data["run"]
        self.assertEqual((run["budget"], run["interval"], run["window"], run["n_sink"]), (48, 16, 16, 4))
        n = run["n_seen"]
        self.assertGreater(n, 300)
        events = list(range(64, n + 1, 16))
        self.assertEqual(run["n_events"], len(events))
        # After the event at n_seen the sinks and the newest 44 are there: pos goes at the first event that finds it older.
        expected = [NO_EVENT if pos < 4 else next((number for number, seen in enumerate(events) if pos < seen - 44), NO_EVENT)
                    for pos in range(n)]
        self.assertEqual(len(data["layers"]), 2)
        for found, left, head in self.heads(data):
            self.assertEqual(found, events)
            self.assertEqual(left, expected)
            self.assertEqual(head["demoted"], "")

    def test_every_event_leaves_the_budget(self):
        data = self.page("--kv", "vase-attnv", "-n", "10", "--ignore-eos")
        run = data["run"]
        for events, left, head in self.heads(data):
            self.assertEqual(len(left), run["n_seen"])
            for number, seen in enumerate(events):
                self.assertEqual(sum(gone > number for gone in left[:seen]), run["budget"])
                self.assertTrue(all(gone > number for gone in left[seen - run["window"]:]), "the window stays")
            self.assertTrue(all(gone == NO_EVENT for gone in left[:run["n_sink"]]), "sinks stay")
            ranges, scores = bf16(head["range"]), bf16(head["score"])
            self.assertTrue(all(value > 0 for value in ranges[:events[-1]]))
            self.assertTrue(all(math.isnan(value) for value in ranges[events[-1]:] + scores[events[-1]:]), "no event showed them")
            self.assertTrue(all(value == math.inf for value in scores[events[-1] - run["window"]:events[-1]]))
            for column in ("kept", "dropped"):
                self.assertEqual(len(base64.b64decode(head[column])), 4 * 5 * len(events))

    def test_layers(self):
        all_layers = self.page("--kv", "snapkv", "-n", "0")
        one = self.page("--kv", "snapkv", "-n", "0", "--layers", "1")
        self.assertEqual([layer["layer"] for layer in all_layers["layers"]], [0, 1])
        self.assertEqual(one["layers"], all_layers["layers"][1:])
        self.assertEqual([layer["layer"] for layer in self.page("-n", "0", "--layers", "1,0")["layers"]], [0, 1])

    def test_the_text_comes_back_byte_for_byte(self):
        data = self.page("-n", "0")
        text = base64.b64decode(data["text"]["bytes"])
        self.assertEqual(sum(data["text"]["lengths"]), len(text))
        self.assertEqual(len(data["text"]["lengths"]), data["run"]["n_prompt"])
        self.assertIn((TEXT * 12).encode(), text)

    def test_the_command_can_be_typed_again(self):
        words = ["-n", "0", "-p", "it's </script> <b>", "--kv", "window:budget=48,interval=16"]
        result = kvase("inspect", "-m", self.model, *words, "-t", "1", "-o", str(self.out))
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        data = json.loads(Page(self.out.read_text(encoding="utf-8")).scripts[0][1])
        typed = subprocess.run(["sh", "-c", "printf '%s\\n' " + data["command"]], capture_output=True, check=True).stdout.decode()
        self.assertEqual(typed.splitlines(),
                         ["kvase", "inspect", "-m", self.model, *words, "-t", "1", "-o", str(self.out)])

    def test_nothing_evicted(self):
        data = self.page("--kv", "full", "-n", "0", "-c", "2000")
        self.assertFalse(data["run"]["evicts"])
        for events, left, _ in self.heads(data):
            self.assertEqual(events, [])
            self.assertEqual(set(left), {NO_EVENT})

    def test_answer_is_that_of_run(self):
        flags = ["-n", "40", "--ignore-eos", "--temp", "1"]
        run = kvase("run", "-m", self.model, "-f", str(self.text), "-s", "5", *SHAPE, *flags)
        inspect = kvase("inspect", "-m", self.model, "-f", str(self.text), "-s", "5", *SHAPE, *flags, "-o", str(self.out))
        self.assertEqual(inspect.stdout, run.stdout)

    def test_bad_options(self):
        base = ["inspect", "-m", self.model, "-p", "Hello", *SHAPE]
        out = ["-o", str(self.out)]
        for arguments, *words in [
            (["inspect", "-p", "Hello", *out], "no model"),
            (base, "no page given", "-o FILE"),
            (["inspect", "-m", self.model, *out], "no prompt given"),
            ([*base, "-o", str(self.dir / "nowhere" / "page.html")], "--out", "allowed"),
            ([*base, "-o", str(self.dir)], "--out", "folder", "allowed"),
            *(([*base, *out, "--layers", layers], "--layers", "allowed") for layers in
              ["", "2", "-1", "0,", ",", "0,0", "x", "0-1", "99999999999", "all,0"]),
            ([*base, *out, "--kv", "nope"], "nope", "vase-attnv"),
            ([*base, *out, "--think", "off"], "without --chat"),
            ([*base, *out, "-n", "-2"], "--predict -2"),
            ([*base, *out, "--temp", "-1"], "temp"),
        ]:
            with self.subTest(arguments=arguments):
                self.out.unlink(missing_ok=True)
                check_refused(self, kvase(*arguments), *words)
                self.assertFalse(self.out.exists())

    def test_a_failed_run_leaves_the_page_alone(self):
        self.out.write_text("mine")
        result = kvase("inspect", "-m", self.model, "-f", str(self.text), "--kv", "full", "-c", "10", "-n", "0", "-o", str(self.out))
        self.assertEqual(result.returncode, 2, result.stderr.decode())
        self.assertEqual(self.out.read_text(), "mine")
        self.assertEqual(list(self.dir.glob("*.part")), [])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    KVASE, TOY_MODEL = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=1)
