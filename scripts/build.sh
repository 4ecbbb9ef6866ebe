#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Sets up and builds.
# usage: scripts/build.sh [release|debug|asan|tsan]     release, the default, gives build/bin/kvase
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

preset=${1:-release}
build_dir=$(preset_build_dir "$preset")
"$kvase_root/scripts/setup.sh"

launcher=()
! command -v ccache >/dev/null || launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
cd "$kvase_root"
step "configuring $preset" cmake --preset "$preset" -DCMAKE_PREFIX_PATH="$(deps_prefix)" "${launcher[@]}"
say "building $preset (2 minutes on 2 cores the first time)"
started=$SECONDS
# On a terminal ninja shows its progress; elsewhere only what goes wrong.
if [ -t 1 ]; then
  cmake --build --preset "$preset"
else
  cmake --build --preset "$preset" -- --quiet
fi
say "built $build_dir/bin/kvase in $((SECONDS - started)) s"
