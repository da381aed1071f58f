#!/bin/bash
# check-tidy.sh [--all] BUILD [FILE...]: runs clang-tidy with the commands of a clang build. The
# analyzer, which takes nearly all of the time, leaves out tests and benchmarks, unless --all is
# given or they are named.
set -euo pipefail
cd "$(dirname "$0")/.."
analyzed=production
if [ "$1" = --all ]; then
	analyzed=all
	shift
fi
build=$1
shift
tool=$(command -v clang-tidy-14 || command -v clang-tidy)
if [ "$#" -gt 0 ]; then
	files=("$@")
	analyzed=all
else
	# Only compiled files have a command; sources that are included by others are checked there.
	mapfile -t files < <(comm -12 <(scripts/tracked.sh '*.c') \
		<(jq -r '.[].file' "$build/compile_commands.json" | sed "s|^$PWD/||" | sort -u))
fi
if [ "${#files[@]}" -eq 0 ]; then
	echo "check-tidy: no files" >&2
	exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0

# Reads files, one in a line; none is right, too.
tidy() # OPTION...
{
	{ grep . || true; } | xargs -r -d '\n' -n 1 -P "$(nproc)" "$tool" -p "$build" --quiet "$@" \
		>>"$log" 2>/dev/null || status=1
}

tests=$([ "$analyzed" = all ] || printf '%s\n' "${files[@]}" | grep -E '^(test|bench)/' || true)
others=$(printf '%s\n' "${files[@]}" | grep -vxFf <(echo "$tests") || true)
tidy <<<"$others"
tidy --checks='-clang-analyzer-*' <<<"$tests"
if [ "$status" -ne 0 ]; then
	# A warning in a header is reported for each file that includes it, so duplicates are
	# removed. For the analyzer's paths, which are not shown here, run clang-tidy -p build/clang
	# FILE.
	awk '/: (error|warning): / { shown = !seen[$0]++ } / note: / { shown = 0 } shown' "$log"
	exit 1
fi
echo "${#files[@]} files"
