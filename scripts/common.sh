# SPDX-License-Identifier: MIT
# Sourced by the other scripts: where things lie, one line per step, retries.
set -euo pipefail

kvase_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
kvase_cache=${KVASE_DEPS:-${XDG_CACHE_HOME:-${HOME:?is not set; set it, or KVASE_DEPS}/.cache}/kvase}
kvase_model_name=SmolLM2-135M-Instruct.Q4_1.gguf
kvase_model=$kvase_root/models/$kvase_model_name
kvase_model_bytes=98362432

ggml_package=llama-cpp-python-0.3.36
# OpenMP's barriers let other programs run after a short spin; ggml's own spin for ever, and on a busy machine two threads of
# those were four times slower than one. The default of GGML_NATIVE builds for this machine's processor.
ggml_options=(
  -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DCMAKE_INSTALL_LIBDIR=lib
  -DGGML_OPENMP=ON
  -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF
  -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF
)

say() { printf 'kvase: %s\n' "$*"; }

die() {
  printf 'kvase: error: %s\n' "$*" >&2
  exit 1
}

# Where ggml and libllama live: one prefix per version, build options, pins and processor.
deps_prefix() {
  local cpu key
  cpu=$(grep -m1 -E '^(flags|Features)' /proc/cpuinfo 2>/dev/null || true)
  key=$({
    printf '%s\n' "$(uname -m)" "$cpu" "${ggml_options[@]}"
    cat "$kvase_root/scripts/pins/llama-cpp-python.txt"
  } | sha256sum | cut -c1-12)
  printf '%s\n' "$kvase_cache/$ggml_package-$key"
}

# step "what it does" command...: the command's output goes to the log; shown if it fails.
step() {
  local what=$1 started=$SECONDS
  shift
  mkdir -p "$kvase_cache"
  local log=$kvase_cache/setup-$$.log
  printf 'kvase: %s ... ' "$what"
  if "$@" >"$log" 2>&1 </dev/null; then
    printf '%s s\n' $((SECONDS - started))
    rm -f "$log"
  else
    local status=$?
    mv "$log" "$kvase_cache/failed.log"
    printf 'failed after %s s\n' $((SECONDS - started))
    tail -n 40 "$kvase_cache/failed.log" >&2
    die "$what: exit status $status; the whole log is $kvase_cache/failed.log"
  fi
}

# Runs a command up to three times: registries time out now and then.
retry() {
  local attempt
  for attempt in 1 2 3; do
    "$@" && return 0
    echo "attempt $attempt failed: $*"
    [ "$attempt" = 3 ] || sleep $((attempt * 5))
  done
  return 1
}

# Holds a lock until the script ends, so that two clones do not fetch or build the same thing at once.
take_lock() {
  mkdir -p "$kvase_cache"
  exec 9>"$kvase_cache/lock"
  if ! flock -n 9; then
    say "waiting for another set-up to finish"
    flock 9
  fi
  # Nobody else is at work now, so these were left by a run that was killed.
  rm -rf "$kvase_cache"/build-?????? "$kvase_cache"/model-?????? "$kvase_cache"/setup-*.log
}

# pip_download PINS DIRECTORY [pip's options...]: one package, its hash checked, into a directory.
pip_download() {
  local pins=$1 directory=$2 python=/usr/bin/python3
  shift 2
  [ -x "$python" ] || python=python3
  PIP_CONSTRAINT=$kvase_root/scripts/pins/build-backend.txt PIP_REQUIRE_VIRTUALENV=0 \
    PIP_DEFAULT_TIMEOUT=${PIP_DEFAULT_TIMEOUT:-60} \
    retry "$python" -m pip download --disable-pip-version-check --no-input --quiet \
    --require-hashes --no-deps "$@" -r "$pins" -d "$directory"
}

# The build folder of a preset, relative to the checkout; the same names as in CMakePresets.json.
preset_build_dir() {
  case "$1" in
    release) echo build ;;
    debug | asan | tsan) echo "build-$1" ;;
    *) die "unknown preset $1, allowed: release, debug, asan, tsan" ;;
  esac
}
