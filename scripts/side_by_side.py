#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the answers of two `kvase run --json` outputs in two columns, with speed and memory under them.

usage: side_by_side.py LEFT_TITLE LEFT.json RIGHT_TITLE RIGHT.json
"""

import json
import shutil
import sys
import textwrap

GAP = " | "
MAX_WIDTH = 160  # wider columns are hard to read


def wrap(text, width):
    lines = []
    for paragraph in text.strip().split("\n"):
        lines += textwrap.wrap(paragraph, width) or [""]
    return lines


def mebibytes(count):
    return f"{count / 2**20:.2f} MiB"


def rate(per_second):
    return "-" if per_second is None else f"{per_second:.1f} tokens/s"


def facts(run):
    """Label and value of what stands under the text."""
    kv = run["kv"]
    return [
        ("policy", kv["policy"]),
        ("KV rows", mebibytes(kv["bytes"])),
        ("side + maps", mebibytes(kv["side_bytes"] + kv["map_bytes"])),
        ("slots per head", f"{kv['capacity']:,}"),
        ("tokens seen", f"{kv['n_seen']:,}, kept {kv['n_kept']:,}"),
        ("evictions", f"{kv['n_evictions']:,}, {kv['evict_ms']:.0f} ms in all"),
        ("decode", rate(run["decode_tps"])),
        ("ended by", f"{run['finish_reason']} after {run['n_generated']:,} tokens"),
    ]


def table(titles, runs, terminal_width):
    """All lines of the output."""
    width = (min(terminal_width, MAX_WIDTH) - len(GAP)) // 2
    columns = []
    for title, run in zip(titles, runs):
        rows = [f"{label + ':':16}{value}" for label, value in facts(run)]
        columns.append((wrap(title, width), wrap(run["text"], width), rows))
    blocks = [list(block) for block in zip(*columns)]
    lines = []
    for left, right in blocks:
        height = max(len(left), len(right))
        left += [""] * (height - len(left))
        right += [""] * (height - len(right))
        lines += [f"{a:{width}}{GAP}{b}".rstrip() for a, b in zip(left, right)]
        lines.append("-" * width + "-+-" + "-" * width)
    return lines


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    titles = [sys.argv[1], sys.argv[3]]
    runs = []
    for path in (sys.argv[2], sys.argv[4]):
        with open(path, encoding="utf-8") as file:
            runs.append(json.load(file))
    print("\n".join(table(titles, runs, shutil.get_terminal_size((100, 24)).columns)))


if __name__ == "__main__":
    main()
