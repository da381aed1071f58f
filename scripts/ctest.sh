#!/bin/bash
# ctest.sh FOLDER [ctest arguments]: a run without a test, or with one that was skipped, is a failure: all packages
# are installed, so that nothing has a reason to be left out.
set -euo pipefail
folder=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
ctest --test-dir "$folder" --output-on-failure --no-tests=error --timeout 300 "$@" 2>&1 | tee "$log" || status=$?
if grep -qE '(\*\*\*Skipped|\*\*\*Not Run)' "$log"; then
	echo "ctest: tests were skipped, and a skip is not a pass" >&2
	exit 1
fi
exit "$status"
