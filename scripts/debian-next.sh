#!/bin/bash
# make debian-next: builds all parts on a later release of Debian than the one that the project is
# developed on, with that release's gcc and libc, then runs the unit tests and the app cases there,
# and ends with "N passed, N failed". As root: all of it runs in a root and namespaces of its own.
# The kernel is this machine's.
#
# debian-next.sh [RELEASE [ctest arguments]]: trixie if none is given; -R NAME for single tests, for
# example. Under build/:
#   roots/RELEASE	the release, with the packages of scripts/packages.txt and
#			packages-rdma.txt. It is made once: remove it to get newer packages
#   RELEASE		the build
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/root.sh

# The names of LLVM's packages have its version, which is another one in each release.
packages()
{
	sed -E 's/#.*//; s/[[:space:]]+//g; /^$/d; s/^(llvm|libclang-rt)-[0-9]+/\1/' \
		scripts/packages.txt scripts/packages-rdma.txt | sort -u | paste -sd,
}

make_root()
{
	local packages
	packages=$(packages)
	made_of "$root" "$packages" && return
	rm -rf "$root"
	mkdir -p build/roots
	# A mirror may be weeks behind, which apt refuses of sid and testing: signatures are checked
	# all the same.
	mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" \
		--aptopt='Acquire::Check-Valid-Until "false"' "$release" "$root" "$(mirror)"
	echo "$packages" >"$root/made-of"
}

# In the namespaces. Not by chroot: a process that was chrooted can make no user namespace.
inside()
{
	local here=$PWD
	mount_root "$root"
	cd "$root"
	pivot_root . mnt
	cd "$here"
	umount -l /mnt
	export PATH=/usr/sbin:/usr/bin:/sbin:/bin
	RSOCK_COUNTS=$counts exec scripts/debian-next.sh --in-root "$release" "$@"
}

in_root()
{
	gcc --version | sed -n 1p
	ldd --version | sed -n 1p
	scripts/build.sh "$build" -DCMAKE_C_COMPILER=gcc
	# Has this libc functions that make a descriptor, and have no hook?
	scripts/check-symbols.py "$build"
	exec scripts/ctest.sh "$build" -L '^(unit|app)$' -j "$(nproc)" "$@"
}

step=
case ${1:-} in
--inside | --in-root)
	step=$1
	shift
	;;
esac
release=${1:-trixie}
shift || true
root=$PWD/build/roots/$release
build=build/$release
counts=$build.counts
case $step in
--inside)
	inside "$@"
	;;
--in-root)
	in_root "$@"
	;;
esac
if [ "$(id -u)" -ne 0 ]; then
	echo "debian-next: not root" >&2
	exit 1
fi
scripts/install-deps.sh scripts/packages-next.txt
make_root

rm -f "$counts"
# unshare ignores other signals; its end ends all tests.
tests=
trap '[ -z "$tests" ] || kill -KILL "$tests" 2>/dev/null; rm -f "$counts"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
status=0
unshare --mount --pid --fork --kill-child --net --ipc \
	scripts/debian-next.sh --inside "$release" "$@" &
tests=$!
wait "$tests" || status=$?
tests=
if [ -e "$counts" ]; then
	read -r passed failed <"$counts"
	echo "$passed passed, $failed failed"
fi
exit "$status"
