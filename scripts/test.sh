#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Sets up, builds, and checks everything: format, includes, the installed package from outside, all tests.
# usage: scripts/test.sh [release|debug|asan|tsan]
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

preset=${1:-release}
build_dir=$kvase_root/$(preset_build_dir "$preset")
"$kvase_root/scripts/setup.sh" --test
step "checking the format" "$kvase_root/scripts/format.sh" --check
step "checking includes and docs" python3 "$kvase_root/scripts/check_includes.py"
"$kvase_root/scripts/build.sh" "$preset"
# A sanitized library would ask its user for the sanitizer, so only plain builds are installed.
case "$preset" in
  release | debug) step "using the installed package from outside" \
    "$kvase_root/tests/install/run.sh" "$build_dir" "$(deps_prefix)" "$kvase_model" ;;
esac
cd "$kvase_root"
ctest --preset "$preset" -j "$(nproc)"
