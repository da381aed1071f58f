#!/bin/bash
# build.sh FOLDER [CMake arguments]: configures the folder if needed, and builds; warnings are
# errors. With TARGET in the environment it builds that target only.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
shift
if ! cmake -G Ninja -S . -B "$folder" -DRSK_WERROR=ON "$@" >"$folder.configure.log" 2>&1; then
	cat "$folder.configure.log" >&2
	exit 1
fi
rm -f "$folder.configure.log"
cmake --build "$folder" --target "${TARGET:-all}" -- --quiet
