#!/bin/bash
# fuzz.sh SECONDS: runs every libFuzzer target for that long, two at a time, from the corpora in
# git. New inputs and crashes stay in build/fuzz/; useful ones are copied to
# test/fuzz/corpus/<target>/ by hand.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
mkdir -p build
TARGET=fuzzers scripts/build.sh build/fuzz -DCMAKE_C_COMPILER=clang -DRSK_FUZZ=ON
shopt -s nullglob
targets=(build/fuzz/bin/fuzz_*)
if [ "${#targets[@]}" -eq 0 ]; then
	echo "fuzz: no targets" >&2
	exit 1
fi

echo "${#targets[@]} targets, two at a time"
fuzz_one()
{
	local seconds=$1 target=$2 name work status=0
	name=${target##*/fuzz_}
	work=build/fuzz/work/$name
	mkdir -p "$work/corpus"
	"$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
		-artifact_prefix="$work/" "$work/corpus" "test/fuzz/corpus/$name" \
		>"$work/log" 2>&1 || status=$?
	echo "$((status == 0)) $((status != 0))" >>"${RSOCK_COUNTS:-/dev/null}"
	if [ "$status" -ne 0 ]; then
		echo "$name: FAILED; the input is in $work/"
		{
			echo "---- fuzz_$name ***Failed"
			tail -60 "$work/log"
		} | tee -a "${RSOCK_FAILED:-/dev/null}"
		return 1
	fi
	printf '%-20s %12s executions, %s edges\n' "$name" \
		"$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log")" \
		"$(grep -oE 'cov: [0-9]+' "$work/log" | tail -1 | cut -d' ' -f2)"
}
export -f fuzz_one
symbolizer=$(command -v llvm-symbolizer-14 || command -v llvm-symbolizer || true)
export ASAN_SYMBOLIZER_PATH=$symbolizer
printf '%s\0' "${targets[@]}" | xargs -0 -P 2 -I{} bash -c 'fuzz_one "$@"' - "$seconds" {}
