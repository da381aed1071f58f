# shellcheck shell=bash
# Sourced. run_step NAME COMMAND...: runs it, whatever came before; steps_end prints what passed and failed, with a
# last line "N passed, N failed" for machines, and is the exit status. Before that it says what failed, with the ends of
# tests' output (ctest.sh), so far: all of that goes to the file RSOCK_FAILED, which may be that of several such scripts.
steps_passed=0
steps_failed=0
steps_report=()
if [ -z "${RSOCK_FAILED:-}" ]; then
	RSOCK_FAILED=$(mktemp)
	export RSOCK_FAILED
	trap 'rm -f "$RSOCK_FAILED"' EXIT
fi

run_step()
{
	local name=$1 begin=$SECONDS status=0
	shift
	printf '\n==== %s\n' "$name"
	"$@" || status=$?
	if [ "$status" -eq 0 ]; then
		steps_passed=$((steps_passed + 1))
		steps_report+=("$(printf 'pass  %4d s  %s' $((SECONDS - begin)) "$name")")
	else
		steps_failed=$((steps_failed + 1))
		steps_report+=("$(printf 'FAIL  %4d s  %s (status %d)' $((SECONDS - begin)) "$name" "$status")")
		printf -- '---- %s: FAILED (status %d)\n' "$name" "$status" | tee -a "$RSOCK_FAILED"
	fi
	return 0
}

steps_end()
{
	if [ -s "$RSOCK_FAILED" ]; then
		printf '\n==== what failed\n'
		cat "$RSOCK_FAILED"
	fi
	printf '\n'
	printf '%s\n' "${steps_report[@]}"
	printf '\n%d passed, %d failed\n' "$steps_passed" "$steps_failed"
	[ "$steps_failed" -eq 0 ] && [ "$steps_passed" -gt 0 ]
}
