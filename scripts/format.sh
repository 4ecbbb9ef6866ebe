#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Formats our C++ files with clang-format 14.
# usage: scripts/format.sh [--check]     --check: changes nothing, fails if a file would change
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case "${1:-}" in
  "") action=(-i) ;;
  --check) action=(--dry-run --Werror) ;;
  *) die "unknown argument $1, allowed: --check" ;;
esac
command -v clang-format-14 >/dev/null || die "not found: clang-format-14; run: scripts/setup.sh --test"
cd "$kvase_root"
find include src tests tools -name '*.h' -print0 -o -name '*.cpp' -print0 | xargs -0 clang-format-14 "${action[@]}"
