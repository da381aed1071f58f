#!/bin/bash
# Checks every Promela model here, exhaustively, with spin; make model and
# scripts/suites.sh run it. A model may give, in comments of their own:
#
#   /* PAN: -m200000 -f */      arguments for the search (pan)
#   /* CC: -DVECTORSZ=2048 */   arguments for the compiler of the search
#   /* MUTANT: -DNO_FENCE */    a spin argument that breaks the protocol: the search must then find
#                               an error, or the model proves nothing
# Safety (assertions, invalid end states) is searched first, then each ltl claim, with acceptance
# cycles. run.sh [file.pml ...] checks several at once, as many as there are processors; the output
# of each is printed at its end. The numbers of searches that passed and failed are appended to the
# file RSOCK_COUNTS, if that is set.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
models=("$@")
if [ "${#models[@]}" -eq 0 ]; then
	shopt -s nullglob
	models=("$here"/*.pml)
fi
if [ "${#models[@]}" -eq 0 ]; then
	echo "models: none found" >&2
	exit 1
fi
if [ "${#models[@]}" -gt 1 ]; then
	# shellcheck disable=SC2317  # called by xargs
	one() # SCRIPT MODEL
	{
		local said status=0
		said=$("$1" "$2" 2>&1) || status=1
		printf '%s\n' "$said"
		return "$status"
	}
	export -f one
	printf '%s\0' "${models[@]}" | xargs -0 -n 1 -P "$(nproc)" \
		bash -c 'one "$@"' - "$here/run.sh"
	exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

directive() # FILE WORD
{
	sed -nE "s@^.*/\* $2: (.*) \*/.*\$@\1@p" "$1"
}

# search LOG MODEL "SPIN ARGS" "CC ARGS" "PAN ARGS": builds and runs one search; 2 when it could not
# be built.
search()
{
	local log=$1 model=$2 spin_args=$3 cc_args=$4 pan_args=$5
	rm -rf "$work/pan" && mkdir "$work/pan" && cd "$work/pan" || return 2
	# The arguments are meant to be split into words.
	# shellcheck disable=SC2086
	spin -a $spin_args "$model" >"$log" 2>&1 || return 2
	[ -e pan.c ] || return 2
	# shellcheck disable=SC2086
	gcc -O2 -w -DMEMLIM=8192 -DCOLLAPSE $cc_args -o pan pan.c >>"$log" 2>&1 || return 2
	# shellcheck disable=SC2086
	timeout 600 ./pan $pan_args >>"$log" 2>&1 || return 2
}

errors_in()
{
	sed -nE 's/^State-vector.*errors: ([0-9]+).*/\1/p' "$1" | tail -1
}

# A search that stopped early has proved nothing, whatever number of errors it prints.
incomplete()
{
	grep -E -e 'max search depth too small|Search not completed|out of memory' \
		-e 'reached -DMEMLIM|hashtable is full' "$1"
}

passed=0
failed=0
prove() # TITLE MODEL "CC ARGS" "PAN ARGS"
{
	local log=$work/log errors states
	if ! search "$log" "$2" "" "$3" "$4"; then
		printf 'FAIL  %-44s search did not run\n' "$1"
		tail -20 "$log"
		failed=$((failed + 1))
		return
	fi
	errors=$(errors_in "$log")
	states=$(sed -nE 's/^ *([0-9.e+]+) states, stored.*/\1/p' "$log" | tail -1)
	if [ "$errors" != 0 ] || incomplete "$log"; then
		printf 'FAIL  %-44s errors: %s\n' "$1" "${errors:-unknown}"
		cat "$log"
		if [ -e "$work/pan/$(basename "$2").trail" ]; then
			(cd "$work/pan" && cp "$2" . && spin -t -p "$(basename "$2")" | tail -80)
		fi
		failed=$((failed + 1))
	else
		printf 'pass  %-44s %s states\n' "$1" "$states"
		passed=$((passed + 1))
	fi
}

refute() # TITLE MODEL "SPIN ARGS" "CC ARGS" "PAN ARGS"; 0 when an error was found
{
	local log=$work/log errors
	search "$log" "$2" "$3" "$4" "$5" || { tail -5 "$log"; return 1; }
	errors=$(errors_in "$log")
	[ "${errors:-0}" != 0 ]
}

# The first macro of a MUTANT that its model never asks for; 1 when there is none.
unknown_to() # MODEL "SPIN ARGS"
{
	local macro
	while read -r macro; do
		if ! grep -qw -- "${macro#-D}" < <(grep -v 'MUTANT:' "$1"); then
			echo "${macro#-D}"
			return 0
		fi
	done < <(grep -oE -- '-D[A-Za-z_0-9]+' <<<"$2")
	return 1
}

for model in "${models[@]}"; do
	model=$(realpath "$model")
	name=$(basename "$model" .pml)
	cc=$(directive "$model" CC | tr '\n' ' ')
	pan="-m1000000 $(directive "$model" PAN | tr '\n' ' ')"
	mapfile -t claims < <(sed -nE 's/^\s*ltl\s+([A-Za-z_0-9]+).*/\1/p' "$model")
	mapfile -t mutants < <(directive "$model" MUTANT)

	# The safety search runs without the claims: only then does pan look for invalid end states.
	prove "$name: safety" "$model" "-DSAFETY -DNOCLAIM $cc" "${pan// -f/ }"
	for claim in "${claims[@]}"; do
		prove "$name: $claim" "$model" "$cc" "-a $pan -N $claim"
	done
	for mutant in "${mutants[@]}"; do
		if unknown=$(unknown_to "$model" "$mutant"); then
			printf 'FAIL  %-44s the model does not name %s\n' "$name: $mutant" \
				"$unknown"
			failed=$((failed + 1))
			continue
		fi
		caught=
		refute "$name" "$model" "$mutant" "-DSAFETY -DNOCLAIM $cc" "${pan// -f/ }" &&
			caught=safety
		for claim in "${claims[@]}"; do
			[ -n "$caught" ] && break
			refute "$name" "$model" "$mutant" "$cc" "-a $pan -N $claim" && caught=$claim
		done
		if [ -n "$caught" ]; then
			printf 'pass  %-44s refuted by %s, as it must be\n' "$name: $mutant" \
				"$caught"
			passed=$((passed + 1))
		else
			printf 'FAIL  %-44s the broken protocol passes\n' "$name: $mutant"
			failed=$((failed + 1))
		fi
	done
done
echo "$passed $failed" >>"${RSOCK_COUNTS:-/dev/null}"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
