#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs the two commands of the README in a bare Debian 12 that has nothing installed, on a fresh clone. Needs root.
# usage: scripts/test_fresh.sh [DIRECTORY]     DIRECTORY: a new one; default: a temporary one, removed at the end
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ "$(id -u)" = 0 ] || die "debootstrap and chroot need root"
command -v debootstrap >/dev/null || die "not found: debootstrap; run: apt-get install debootstrap"

unmount() {
  umount -l "$fresh/dev/pts" "$fresh/dev/shm" "$fresh/dev" "$fresh/proc" 2>/dev/null || true
}

if [ $# -ge 1 ]; then
  fresh=$1
  mkdir "$fresh"
  trap unmount EXIT
else
  fresh=$(mktemp -d)
  trap 'unmount; rm -rf --one-file-system "$fresh"' EXIT
fi

# The registries and certificates of this machine, whatever they are, hold inside as well.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' | head -n 1)
step "debootstrap of Debian 12" debootstrap --variant=minbase bookworm "$fresh" "${mirror:-}"
rm -rf "$fresh/etc/apt"
cp -a /etc/apt "$fresh/etc/apt"
cp -L /etc/resolv.conf /etc/hosts "$fresh/etc/"
[ ! -e /etc/pip.conf ] || cp -L /etc/pip.conf "$fresh/etc/"
mapfile -t environment < <(env | grep -iE '^(PIP_[A-Z_]*|https?_proxy|no_proxy)=' || true)
bundle=/etc/ssl/certs/ca-certificates.crt
if [ -e "$bundle" ]; then
  cp -L "$bundle" "$fresh/etc/host-certificates.crt"
  environment+=(PIP_CERT=/etc/host-certificates.crt)
fi
mount -t proc proc "$fresh/proc"
mount --bind /dev "$fresh/dev"
mount --bind /dev/pts "$fresh/dev/pts"
mount -t tmpfs tmpfs "$fresh/dev/shm"
git clone --quiet --no-hardlinks "$kvase_root" "$fresh/opt/kvase"

inside() {
  chroot "$fresh" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "${environment[@]}" "$@"
}
# timed NAME SCRIPT
timed() {
  local started=$SECONDS
  inside bash "/opt/kvase/scripts/$2"
  say "$1: $((SECONDS - started)) s"
}
timed "demo from nothing" demo.sh
timed "test" test.sh
timed "demo again" demo.sh
timed "test again" test.sh
