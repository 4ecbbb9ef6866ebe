#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs what a build needs: Debian packages, ggml and libllama (built once, outside the checkout), the demo's model.
# usage: scripts/setup.sh [--test]     --test adds what scripts/test.sh needs
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages=(
  g++ cmake ninja-build                              # build
  python3 python3-pip                                # fetch from PyPI; the demo's two columns
  libhwy-dev libfmt-dev nlohmann-json3-dev libcli11-dev  # libraries
  libgtest-dev libgmock-dev                          # tests
)
case "${1:-}" in
  "") ;;
  --test) packages+=(clang-format-14) ;;
  *) die "unknown argument $1, allowed: --test" ;;
esac

missing_packages() {
  local installed package
  installed=" $(dpkg-query -W -f '${db:Status-Status}:${Package} ' "${packages[@]}" 2>/dev/null || true)"
  for package in "${packages[@]}"; do
    [[ $installed == *" installed:$package "* ]] || printf '%s ' "$package"
  done
}

install_packages() {
  local missing as_root=()
  if ! command -v dpkg-query >/dev/null; then
    say "not a Debian system; taken as installed: ${packages[*]}"
    return
  fi
  missing=$(missing_packages)
  [ -n "$missing" ] || return 0
  did_something=1
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null ||
      die "Debian packages are missing, and there is neither root nor sudo; as root run: apt-get install $missing"
    as_root=(sudo)
    sudo -n true 2>/dev/null || sudo -v ||
      die "Debian packages are missing, and sudo was refused; as root run: apt-get install $missing"
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600)
  step "reading Debian's package lists" retry "${apt[@]}" update
  # shellcheck disable=SC2086  # one word per package
  step "installing Debian packages: $missing" retry "${apt[@]}" install -y --no-install-recommends $missing
}

# Joined by && because `step` calls it as a condition, where bash does not stop at the first failure.
build_ggml() {
  local work=$1 prefix=$2 launcher=()
  ! command -v ccache >/dev/null || launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  mkdir "$work/source" &&
    tar -xzf "$work"/llama_cpp_python-*.tar.gz -C "$work/source" --strip-components=3 \
      --wildcards '*/vendor/llama.cpp/*' &&
    GIT_CEILING_DIRECTORIES=$work cmake -S "$work/source" -B "$work/build" -G Ninja "${ggml_options[@]}" \
      "${launcher[@]}" -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_RPATH='$ORIGIN' &&
    cmake --build "$work/build" &&
    DESTDIR=$work/stage cmake --install "$work/build"
}

install_ggml() {
  local prefix work
  prefix=$(deps_prefix)
  [ ! -d "$prefix" ] || return 0
  did_something=1
  work=$(mktemp -d "$kvase_cache/build-XXXXXX")
  trap "rm -rf '$work'" EXIT
  step "fetching $ggml_package (76 MB)" \
    pip_download "$kvase_root/scripts/pins/llama-cpp-python.txt" "$work" --no-binary llama-cpp-python
  step "building ggml and libllama (4 minutes on 2 cores)" build_ggml "$work" "$prefix"
  mv -T "$work/stage$prefix" "$prefix"
  rm -rf "$work"
}

did_something=
started=$SECONDS
take_lock
install_packages
install_ggml
[ "$(stat -c %s "$kvase_model" 2>/dev/null)" = "$kvase_model_bytes" ] || did_something=1
"$kvase_root/scripts/fetch_model.sh" --locked
if [ -n "$did_something" ]; then
  say "set-up finished in $((SECONDS - started)) s"
else
  say "set-up: nothing to do"
fi
