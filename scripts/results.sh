#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures the table of docs/results.md: every method at 1/2, 1/4 and 1/8 of the full cache's bytes on given texts.
# usage: scripts/results.sh MODEL OUT_DIR TEXT...      4,096 tokens of each text
# Stop it whenever you like: the same command goes on where it ended. What is in OUT_DIR is a whole report at any time; what
# tells most comes first. KVASE names the program (default: build/bin/kvase), KVASE_THREADS its threads (default: 1).
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[[ $# -ge 3 ]] || die "usage: scripts/results.sh MODEL OUT_DIR TEXT..."
model=$1 out=$2
shift 2
texts=()
for text in "$@"; do texts+=(-f "$text"); done
program=${KVASE:-$kvase_root/build/bin/kvase}

methods=(window streaming-llm random snapkv vase-attnv vase-dkv curdkv keydiff knorm rkv-vase lagkv evict-large cur-norms)
# vase-attnv piece by piece: reserve by value, by chance, of sinks alone (n_large=4), none; sampling or top-k; with and without sinks.
ablations=(vase-attnv:fill=topk vase-attnv:n_large=4 snapkv:sinks=4 vase-attnv:reserve=random random:sinks=4 h2o tova
  vase-attnv:sinks=0 vase-attnv:reserve=none)
leaders=(vase-attnv rkv-vase snapkv streaming-llm keydiff h2o)
order=(snapkv:smooth=avg snapkv:smooth=max snapkv:smooth=avg,axis=slot vase-attnv:smooth=avg vase-attnv:smooth=avg,axis=slot
  snapkv+pyramid vase-attnv+pyramid)
slow=(cur-exact leverage rkv)

# measure BUDGETS SEEDS POLICY...
measure() {
  local budgets=$1 seeds=$2 policies=() policy
  shift 2
  for policy in "$@"; do policies+=(--kv "$policy"); done
  "$program" eval fidelity -m "$model" -t "${KVASE_THREADS:-1}" -c 4096 "${texts[@]}" --out "$out" --parallel 16 \
    --kv-budget "$budgets" -s "$seeds" "${policies[@]}" >/dev/null
}

measure 1/4 0 "${methods[@]}"
measure 1/4 0 "${ablations[@]}"
measure 1/8 0 "${leaders[@]}"
measure 1/4 0 "${order[@]}"
measure 1/4 0,1,2 vase-attnv vase-attnv:reserve=random vase-attnv:n_large=4
measure 1/8 0 "${methods[@]}" "${ablations[@]}"
measure 1/2 0 "${leaders[@]}"
measure 1/4,1/8 0,1,2 "${methods[@]}" "${ablations[@]}" "${order[@]}"
measure 1/2 0,1,2 "${methods[@]}" "${ablations[@]}" "${order[@]}"
measure 1/4,1/8,1/2 0,1,2 "${slow[@]}"
