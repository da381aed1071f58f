#!/bin/bash
# check-format.sh [--fix]: runs clang-format over all C files. The version is pinned, since others
# format differently.
set -euo pipefail
cd "$(dirname "$0")/.."
tool=$(command -v clang-format-14 || command -v clang-format)
if [[ $("$tool" --version) != *'version 14.'* ]]; then
	echo "check-format: clang-format 14 is wanted, this is $("$tool" --version)" >&2
	exit 1
fi
tracked=$(scripts/tracked.sh '*.c' '*.h')
mapfile -t files <<<"$tracked"
if [ "${#files[@]}" -lt 5 ]; then
	echo "check-format: only ${#files[@]} files were found" >&2
	exit 1
fi
if [ "${1:-}" = --fix ]; then
	exec "$tool" -i --style=file "${files[@]}"
fi
exec "$tool" --style=file --dry-run -Werror "${files[@]}"
