#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Sets up, builds, and answers one prompt twice: with the full cache, and with VaSE in a quarter of its bytes.
# usage: scripts/demo.sh [QUESTION]
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

question=${1:-What should I know before I keep bees in my garden?}
# 256 slots per head in place of 1,024: after each eviction 192 stay, then 64 tokens come.
context=1024
budget=192
interval=64

"$kvase_root/scripts/build.sh"
kvase=$kvase_root/build/bin/kvase
answers=$(mktemp -d)
trap 'rm -rf "$answers"' EXIT
prompt=$'<|im_start|>user\n'$question$'<|im_end|>\n<|im_start|>assistant\n'
common=(run -m "$kvase_model" -p "$prompt" --temp 0.8 -s 1 -n 700 --json)

say "answering with the full cache of $context tokens"
"$kvase" "${common[@]}" --kv full -c "$context" >"$answers/full.json"
say "answering with VaSE in $((budget + interval)) slots per head"
"$kvase" "${common[@]}" --kv vase-attnv --kv-budget "$budget" --kv-interval "$interval" >"$answers/vase.json"
printf '\n%s\n\n' "$question"
python3 "$kvase_root/scripts/side_by_side.py" \
  "full cache" "$answers/full.json" "VaSE, a quarter of the bytes" "$answers/vase.json"
