#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs a build into a temporary prefix and uses it as an outside project would.
# usage: tests/install/run.sh BUILD_DIRECTORY DEPS_PREFIX MODEL
set -euo pipefail

[ $# = 3 ] || {
  echo "usage: $0 BUILD_DIRECTORY DEPS_PREFIX MODEL" >&2
  exit 2
}
build=$1 deps=$2 model=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

cmake --install "$build" --prefix "$prefix"
# The lines of the first comment that are indented by three spaces are the example.
sed -n 's|^//   ||p; s|^//$||p' "$prefix/include/kvase/kvase.h" >"$work/example.cpp"
cmake -S "$here" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix;$deps" \
  -DEXAMPLE="$work/example.cpp" -DHEADERS="$prefix/include"
cmake --build "$work/build"

"$work/build/own_policy" "$model"
prompt=$'<|im_start|>user\nSay hello.<|im_end|>\n<|im_start|>assistant\n'
answer=$("$work/build/example" "$model" "$prompt" </dev/null)
grep -q 'KV cache: [0-9]* bytes' <<<"$answer"
"$prefix/bin/kvase" --version
