#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the rules of the house that a compiler does not: who may include whom, docs that name every folder, no machine's paths.

Prints one line per fault and exits with 1 if there is one.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Folder of src/ -> folders that it may include, and through them what they may. Lowest first.
BELOW = {
    "base": [],
    "tensor": ["base"],
    "text": ["base"],
    "policy": ["base"],
    "kv": ["tensor"],
    "stats": ["kv"],
    "value_map": ["kv"],
    "attention": ["kv", "stats", "value_map"],
    "model": ["attention"],
    "engine": ["text", "policy", "model"],
    "report": [],
    "eval": ["report"],
    "server": [],
    "cli": ["report", "eval"],
}

# Public headers (include/kvase/) that a folder may include. Folders that are not named here: all of them.
PUBLIC = {
    "base": {"error.h"},
    "tensor": {"error.h"},
    "policy": {"error.h", "policy.h"},
    "kv": {"error.h", "options.h", "policy.h"},
    "stats": {"error.h", "options.h", "policy.h"},
    "value_map": {"error.h", "options.h", "policy.h"},
    "attention": {"error.h", "options.h", "policy.h"},
    "report": {"error.h"},
}

# Libraries that only some folders may know. Tests may use all.
LIBRARIES = {
    re.compile(r"(ggml|gguf)[\w-]*\.h"): {"tensor", "kv", "stats", "value_map", "attention", "model", "engine"},
    re.compile(r"llama[\w-]*\.h"): {"text", "engine", "cli"},  # cli: the peer of `kvase bench`
    re.compile(r"hwy/.*"): {"base", "stats", "value_map", "attention"},
    re.compile(r"CLI/.*"): {"cli"},
    re.compile(r"nlohmann/.*"): {"cli", "server", "report", "eval"},
}

# Files that may know any library, and why.
EXCEPTIONS = {
    "src/cli/peer.cpp": "libllama itself, as the peer in benchmarks",
}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
MACHINE_PATH = re.compile(r"(?<![\w.$})/-])/(?:home|root|tmp|work|mnt|Users)/\w")
SKIPPED = re.compile(r"^(\.git|\.cache|models|build[^/]*)(/|$)")


def closure(folder):
    """The folder itself and all that it may include."""
    found = {folder}
    for below in BELOW[folder]:
        found |= closure(below)
    return found


def includes(path):
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


def check_source(path):
    """Faults of one file below src/."""
    relative = path.relative_to(ROOT)
    folder = relative.parts[1]
    if folder not in BELOW:
        yield f"{relative}: folder {folder} has no row in scripts/check_includes.py"
        return
    is_test = path.stem.endswith("_test")
    allowed = closure(folder)
    for name in includes(path):
        head, _, rest = name.partition("/")
        if head in BELOW and head not in allowed:
            yield f"{relative}: includes {name}, allowed: {', '.join(sorted(allowed))}"
        elif head == "kvase" and rest not in PUBLIC.get(folder, {rest}):
            yield f"{relative}: includes {name}, allowed of kvase/: {', '.join(sorted(PUBLIC[folder]))}"
        elif not is_test and str(relative) not in EXCEPTIONS:
            for library, folders in LIBRARIES.items():
                if library.fullmatch(name) and folder not in folders:
                    yield f"{relative}: includes {name}, allowed only in: {', '.join(sorted(folders))}"


def check_public_header(path):
    """Public headers know the standard library and each other."""
    for name in includes(path):
        if "." in name and not name.startswith("kvase/"):
            yield f"{path.relative_to(ROOT)}: includes {name}, allowed: kvase/ and the standard library"


def check_architecture_page():
    page = ROOT / "docs" / "architecture.md"
    text = page.read_text(encoding="utf-8")
    for folder in sorted(p.name for p in (ROOT / "src").iterdir() if p.is_dir()):
        if f"`{folder}/`" not in text:
            yield f"docs/architecture.md: does not name `{folder}/`"


def check_paths(path):
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if found := MACHINE_PATH.search(line):
            yield f"{path.relative_to(ROOT)}:{number}: a path of one machine: {found.group()}..."


def files():
    for path in sorted(ROOT.rglob("*")):
        if path.is_file() and not path.is_symlink() and not SKIPPED.match(str(path.relative_to(ROOT))):
            yield path


def main():
    faults = list(check_architecture_page())
    for path in files():
        relative = path.relative_to(ROOT)
        if path.suffix in {".h", ".cpp"} and relative.parts[0] == "src" and len(relative.parts) > 2:
            faults += check_source(path)
        if relative.parts[0] == "include":
            faults += check_public_header(path)
        faults += check_paths(path)
    for fault in faults:
        print(fault)
    print(f"{len(faults)} faults" if faults else "includes, docs and paths: good")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
