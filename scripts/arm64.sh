#!/bin/bash
# make arm64: builds all parts for arm64 on an x86-64 machine, then runs the unit tests and the app
# cases there by qemu-aarch64, and ends with "N passed, N failed". As root: it installs packages,
# and the tests run in a root and namespaces of their own.
#
# arm64.sh [ctest arguments]: -R NAME for single tests, for example. Under build/:
#   arm64-root	packages of scripts/packages.txt for arm64, unpacked; nothing of it is installed in
#		this system, where several would take the place of those of x86-64
#   arm64-qemu	Debian's qemu-aarch64 with test/arm64/qemu.patch. The packaged one lacks preadv2(),
#		without which there are no doorbells, and SO_COOKIE, so no stream would be direct
#   arm64	the build
# The tests in test/arm64/left-out.txt do not run.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD
root=$here/build/arm64-root
qemu=$here/build/arm64-qemu
build=build/arm64
left_out=test/arm64/left-out.txt
format=rsock-arm64 # the name of the registration in binfmt_misc
formats=/proc/sys/fs/binfmt_misc
. scripts/root.sh

# The packages with headers, and what tests start: a shell, and what it calls.
make_root()
{
	local packages
	packages=$(sed -E 's/#.*//; s/[[:space:]]+//g; /^lib.*-dev$/!d; /^libclang/d' \
		scripts/packages.txt | sort | paste -sd,)
	packages+=,uthash-dev,valgrind,libc6-dev,dash,bash,coreutils,diffutils
	made_of "$root" "$packages" && return
	rm -rf "$root"
	mmdebstrap --quiet --mode=root --variant=extract --arch=arm64 --include="$packages" \
		"$(codename)" "$root" "$(mirror)"
	printf 'root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n' \
		>"$root/etc/passwd"
	printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
	mkdir -p "$root"/{proc,dev,sys,tmp,run}
	echo "$packages" >"$root/made-of"
}

# apt-get with the lists of sources only, which most systems do not have.
apt_sources()
{
	apt-get -q -o DPkg::Lock::Timeout=300 -o Dir::Etc::sourceparts=- \
		-o Dir::Etc::sourcelist="$qemu/sources.list" -o Dir::State::lists="$qemu/lists" \
		-o APT::Sandbox::User=root "$@"
}

make_qemu()
{
	local of log=$qemu/log
	of=$(sha256sum test/arm64/qemu.patch)
	made_of "$qemu" "$of" && return
	echo "arm64: building qemu-aarch64, some minutes"
	rm -rf "$qemu"
	mkdir -p "$qemu/lists/partial"
	echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror)" \
		"$(codename) main" >"$qemu/sources.list"
	if ! (
		exec >"$log" 2>&1
		apt_sources update
		cd "$qemu"
		apt_sources source --only-source --download-only qemu
		dpkg-source -x qemu_*.dsc source
		cd source
		patch -p1 --no-backup-if-mismatch <"$here/test/arm64/qemu.patch"
		mkdir aarch64
		cd aarch64
		# Debian's Python, for Debian's meson.
		PATH=/usr/bin:/bin:/usr/sbin:/sbin ../configure --cc='ccache gcc' --static \
			--target-list=aarch64-linux-user --without-default-features
		ninja -j "$(nproc)" qemu-aarch64
		strip -o "$qemu/qemu-aarch64" qemu-aarch64
	); then
		tail -n 40 "$log" >&2
		exit 1
	fi
	rm -rf "$qemu/source" "$qemu/lists" "$qemu"/qemu_*
	echo "$of" >"$qemu/made-of"
}

left_out()
{
	sed -E 's/[[:space:]]*#.*//; /^$/d' "$left_out"
}

# Tests of which only a part is left out, as arguments of cmake (Rsock.cmake).
parts_left_out()
{
	left_out | sed -n 's/^unit_\([^ ]*\) .*/\1/p' | sort -u | while read -r name; do
		echo "-DRSK_UNIT_LEFT_OUT_$name=$(left_out |
			sed -n "s/^unit_$name //p" | paste -sd'|')"
	done
}

# The others, as a regular expression; each must be a test.
all_left_out()
{
	local name all
	all=$(ctest --test-dir "$build" -N | sed -n 's/^ *Test *#[0-9]*: //p')
	left_out | while read -r name part; do
		if ! grep -qxF "$name" <<<"$all"; then
			echo "$left_out: $name: no such test" >&2
			return 1
		fi
		[ -n "$part" ] || echo "${name//./\\.}"
	done | paste -sd'|'
}

# The tests, in namespaces of their own.
inside()
{
	local names
	mount_root "$root"
	names=$(all_left_out)
	exec scripts/ctest.sh "$build" -L '^(unit|app)$' -R '^(unit|replay|app)_' \
		-E "^($names)\$" -j $((2 * $(nproc))) "$@"
}

# A test's program: cmake/arm64.cmake makes ctest call this.
in_root()
{
	# qemu keeps some bytes for each page of reserved address space, for ever. A segment
	# reserves 16 GiB, less where address space is limited, and some tests make many. One test
	# has more streams than fit into less.
	[[ ${*: -1} == many_streams ]] || ulimit -v $((1 << 30))
	exec unshare --root="$root" --wd="$here/$build" "$@"
}

# The kernel opens the interpreter now (F), so it need not be in the root. P: argv[0] stays.
register()
{
	local magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
	local seven='\xff\xff\xff\xff\xff\xff\xff' mask
	mask="$seven\x00$seven\xff\xfe\xff\xff\xff"
	[ -e "$formats/register" ] || mount -t binfmt_misc binfmt_misc "$formats"
	unregister # left by a run that was killed
	printf '%s' ":$format:M::$magic:$mask:$qemu/qemu-aarch64:POF" >"$formats/register"
}

unregister()
{
	[ ! -e "$formats/$format" ] || echo -1 >"$formats/$format"
}

case ${1:-} in
--inside)
	inside "${@:2}"
	;;
--in-root)
	in_root "${@:2}"
	;;
esac
if [ "$(id -u)" -ne 0 ]; then
	echo "arm64: not root" >&2
	exit 1
fi
scripts/install-deps.sh scripts/packages.txt scripts/packages-arm64.txt
mkdir -p build
make_root
make_qemu
export RSK_ARM64_ROOT=$root
mapfile -t parts < <(parts_left_out)
scripts/build.sh "$build" -DCMAKE_TOOLCHAIN_FILE="$here/cmake/arm64.cmake" \
	-DCMAKE_C_COMPILER_LAUNCHER=ccache -U "RSK_UNIT_LEFT_OUT_*" "${parts[@]}"

counts=$(mktemp)
# unshare ignores other signals; its end ends all tests.
tests=
trap '[ -z "$tests" ] || kill -KILL "$tests" 2>/dev/null; unregister; rm -f "$counts"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
register
status=0
RSOCK_COUNTS=$counts unshare --mount --pid --fork --kill-child --net --ipc \
	scripts/arm64.sh --inside "$@" &
tests=$!
wait "$tests" || status=$?
tests=
read -r passed failed <"$counts"
echo "$passed passed, $failed failed"
exit "$status"
