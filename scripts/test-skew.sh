#!/bin/bash
# test-skew.sh FOLDER [case ...]: brings this build together with an earlier one, in both roles
# (test/skew). FOLDER has the librsock.so, rsockd and rsock of that one. They must talk, or leave
# streams on TCP for a reason; which of the two it was is printed. Without FOLDER make test does it
# with a build whose every version is one higher.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -lt 1 ] || [ ! -e "$1/librsock.so" ]; then
	echo "usage: $0 FOLDER [case ...], FOLDER with librsock.so, rsockd and rsock" >&2
	exit 2
fi
RSOCK_TEST_OTHER=$(cd "$1" && pwd)
build=$PWD/build
export RSOCK_TEST_OTHER
LIBRSOCK=$build/lib/librsock.so RSOCK_TOOL=$build/bin/rsock RSOCK_TEST_BIN=$build/bin
export LIBRSOCK RSOCK_TOOL RSOCK_TEST_BIN
shift
script=test/skew/skew_versions.py
# Each case makes its own namespaces, which have the name of its process.
list=$(python3 -B $script --list)
mapfile -t cases < <(if [ $# -gt 0 ]; then printf '%s\n' "$@"; else cut -d' ' -f1 <<<"$list"; fi)
status=0
for case in "${cases[@]}"; do
	python3 -B $script "$case" || status=$?
done
exit $status
