# shellcheck shell=bash
# Sourced by the scripts that run several suites. suite NAME COMMAND... registers a suite.
# suites_run runs all registered suites one after the other, whatever their results, prints before
# each its name and the remaining time, and ends with a table, a line for each test that failed,
# and the line "N passed, N failed" for machines. Its status is 0 if something passed and nothing
# failed.
#
# A suite's command may append lines "PASSED FAILED" to the file RSOCK_COUNTS; otherwise the suite
# counts as one test. A suite that counts nothing has failed. The usual duration of a suite is in
# scripts/times.txt, and for this tree, once the suite has run, in build/times.txt, in the same
# format, to be copied when suites have changed.
#
# RSOCK_FAILED (failures, with the ends of tests' output) and RSOCK_REPORT (rows of the table) are
# files that several such scripts may share: each shows all of it so far.
suites_names=()
suites_commands=()
suites_own=()

suites_file() # VARIABLE: a file that the caller has named, or a temporary one
{
	if [ -z "${!1:-}" ]; then
		printf -v "$1" %s "$(mktemp)"
		suites_own+=("${!1}")
	fi
	export "${1?}"
}
suites_file RSOCK_FAILED
suites_file RSOCK_REPORT
suites_counts=$(mktemp)
suites_own+=("$suites_counts")
trap 'rm -f "${suites_own[@]}"' EXIT

suite()
{
	suites_names+=("$1")
	shift
	suites_commands+=("$(printf '%q ' "$@")")
}

suites_usual() # NAME: prints the seconds that it took the last time, or nothing
{
	cat build/times.txt scripts/times.txt 2>/dev/null |
		NAME=$1 awk '{ seconds = $1; sub(/^ *[0-9]+ +/, "") }
			$0 == ENVIRON["NAME"] && !seen++ { print seconds }' || true
}

suites_note() # NAME SECONDS: saves them for the next time
{
	local file=build/times.txt
	[ -d build ] || return 0
	touch "$file"
	NAME=$1 awk '{ line = $0; sub(/^ *[0-9]+ +/, "") }
		$0 != ENVIRON["NAME"] { print line }' "$file" >"$file.new"
	printf '%5d  %s\n' "$2" "$1" >>"$file.new"
	mv "$file.new" "$file"
}

minutes() # SECONDS
{
	printf '%d:%02d' $(($1 / 60)) $(($1 % 60))
}

suites_run()
{
	local number of=${#suites_names[@]} started=$SECONDS begin name usual expected left=0
	local status passed failed words
	local -a usuals=()
	for name in "${suites_names[@]}"; do
		usual=$(suites_usual "$name")
		usuals+=("$usual")
		left=$((left + ${usual:-0}))
	done
	for ((number = 0; number < of; number++)); do
		name=${suites_names[number]}
		usual=${usuals[number]}
		expected="never timed"
		[ -z "$usual" ] || expected="some $(minutes "$usual")"
		printf '\n==== %d of %d: %s (%s; %s so far, some %s to go)\n' \
			$((number + 1)) "$of" "$name" "$expected" \
			"$(minutes $((SECONDS - started)))" "$(minutes "$left")"
		begin=$SECONDS status=0
		: >"$suites_counts"
		(
			export RSOCK_COUNTS=$suites_counts
			eval "${suites_commands[number]}"
		) || status=$?
		left=$((left - ${usual:-0}))
		read -r passed failed <<<"$(awk '{ passed += $1; failed += $2 }
			END { print passed + 0, failed + 0 }' "$suites_counts")"
		words=
		if [ "$status" -ne 0 ]; then
			[ "$failed" -gt 0 ] || failed=1
			words=" (status $status)"
		elif [ ! -s "$suites_counts" ]; then
			passed=1
		elif [ "$passed" -eq 0 ] && [ "$failed" -eq 0 ]; then
			failed=1
			words=" (ran nothing)"
		fi
		if [ "$failed" -gt 0 ]; then
			printf -- '---- %s: FAILED%s\n' "$name" "$words" | tee -a "$RSOCK_FAILED"
		else
			suites_note "$name" $((SECONDS - begin))
		fi
		printf '%d\t%d\t%d\t%s\n' "$passed" "$failed" $((SECONDS - begin)) \
			"$name$words" >>"$RSOCK_REPORT"
	done
	if [ -s "$RSOCK_FAILED" ]; then
		printf '\n==== what failed\n'
		cat "$RSOCK_FAILED"
	fi
	printf '\n'
	awk -F '\t' '
	BEGIN { printf "      passed  failed  seconds  suite\n" }
	{
		printf "%s  %6d  %6d  %7d  %s\n", $2 ? "FAIL" : "pass", $1, $2, $3, $4
		passed += $1; failed += $2; seconds += $3
	}
	END {
		printf "in sum%6d  %6d  %7d  (%d:%02d)\n\n", passed, failed, seconds,
			seconds / 60, seconds % 60
	}' "$RSOCK_REPORT"
	suites_failed
	awk -F '\t' '{ passed += $1; failed += $2 }
	END {
		printf "%d passed, %d failed\n", passed, failed
		exit failed > 0 || passed == 0
	}' "$RSOCK_REPORT"
}

# A line for each test that failed: its name, and the first line of its output that says so. Who is
# shown the end of a log alone sees these.
suites_failed()
{
	awk '
	function told()
	{
		if (name != "")
			printf "failed: %s%s\n", name, why == "" ? "" : ": " substr(why, 1, 160)
		name = why = ""
	}
	/^---- .*: FAILED/ { told(); next }
	/^---- / {
		told()
		name = $2
		if (match($0, /\*\*\*[A-Z][A-Za-z ]*/))
			name = name " (" substr($0, RSTART + 3, RLENGTH - 3) ")"
		sub(/ +\)$/, ")", name)
		next
	}
	why == "" && (/^FAIL/ || /[Ff]ailed|[Ee]rror:/) { why = $0 }
	END { told() }' "$RSOCK_FAILED"
}
