#!/bin/bash
# check-alone.sh: checks that librsock.so alone can be configured where no other library is found,
# and that the presets can.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if ! PKG_CONFIG_LIBDIR=/nonexistent PKG_CONFIG_PATH='' cmake -S . -B "$folder" \
	-DRSOCK_BUILD_VERBS=OFF -DRSOCK_BUILD_DAEMON=OFF -DRSOCK_BUILD_TOOLS=OFF \
	-DRSOCK_BUILD_TESTS=OFF >"$folder/log" 2>&1; then
	cat "$folder/log" >&2
	exit 1
fi
presets=$(cmake --list-presets=configure . | grep -c '^  "')
[ "$presets" -ge 5 ] || exit 1
echo "configured; $presets presets"
