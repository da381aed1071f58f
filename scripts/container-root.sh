#!/bin/bash
# container-root.sh: makes build/roots/container, the root file system of the containers of
# test/net/net_podman.py: Debian with Python, and the places at which these mount what they need.
# Once: remove it to get newer packages. As root.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/root.sh
root=$PWD/build/roots/container
packages=python3,libjansson4,libncurses6,libmnl0,libcyaml1,libyaml-0-2
scripts/install-deps.sh scripts/packages-container.txt
made_of "$root" "$packages" && exit
rm -rf "$root"
mkdir -p build/roots
mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" "$(codename)" "$root" \
	"$(mirror)"
mkdir "$root/run/rsock"
# With user namespaces the engine cannot make them.
mkdir -p "$root/run/secrets"
ln -s /proc/mounts "$root/etc/mtab"
touch "$root/usr/lib/librsock.so" "$root/usr/bin/rsock" "$root/peer.py" "$root/run/.containerenv" \
	"$root/etc/hosts" "$root/etc/resolv.conf" "$root/etc/hostname"
echo "$packages" >"$root/made-of"
