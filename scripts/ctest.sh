#!/bin/bash
# ctest.sh FOLDER [ctest arguments]: runs ctest. A run without a test, or with a skipped one, fails:
# all packages are installed, so there is no reason to skip. Failures are printed once more at the
# end, since often only the end of a long log is kept, and written to the file RSOCK_FAILED if that
# is set. The numbers of tests that passed and failed go to RSOCK_COUNTS, if that is set. The tests
# themselves see neither file.
set -euo pipefail
folder=$1
shift
log=$(mktemp)
status=0
failures=${RSOCK_FAILED:-/dev/null} counts=${RSOCK_COUNTS:-/dev/null}
unset RSOCK_FAILED RSOCK_COUNTS RSOCK_REPORT

# From ctest's output: the name of each test that did not pass, and the last lines of its output.
# shellcheck disable=SC2317  # called by ends
failed()
{
	awk -v kept=20 '
	function told(i)
	{
		if (name == "")
			return
		printf "---- %s\n", name
		while (last > 0 && line[last] ~ /^[ \t]*$/)
			last--
		for (i = last > kept ? last - kept + 1 : 1; i <= last; i++)
			print substr(line[i], 1, 1000)
		name = ""
	}
	/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / || /^ +Start +[0-9]+: / || /^[0-9]+% tests passed/ {
		told()
		last = 0
		if (/\*\*\*/) {
			name = $0
			sub(/^.*Test +#[0-9]+: /, "", name)
		}
		next
	}
	{ line[++last] = $0 }
	END { told() }' "$1"
}

# shellcheck disable=SC2317  # called at the end, however that comes
ends()
{
	if [ "$1" -ne 0 ]; then
		printf '\n==== what failed of %s, and the end of what it said\n' "$folder"
		failed "$log" | tee -a "$failures"
	fi
	# A test that hangs until ctest itself is ended is in neither number; the exit status
	# reports it.
	awk '
	/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
		if (/\*\*\*/)
			failed++
		else
			passed++
	}
	END { print passed + 0, failed + 0 }' "$log" >>"$counts"
	rm -f "$log"
}
trap 'ends $?' EXIT
trap 'exit 143' TERM

ctest --test-dir "$folder" --output-on-failure --no-tests=error --timeout 300 "$@" 2>&1 |
	tee "$log" || status=$?
if grep -qE '(\*\*\*Skipped|\*\*\*Not Run)' "$log"; then
	echo "ctest: tests were skipped, and a skip is not a pass" >&2
	exit 1
fi
exit "$status"
