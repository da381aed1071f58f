#!/bin/bash
# check-shell.sh: runs shellcheck over every shell script of the tree, whatever its name.
set -euo pipefail
cd "$(dirname "$0")/.."
tracked=$(scripts/tracked.sh)
files=()
while read -r file; do
	case $file in
	*.sh) files+=("$file") ;;
	*)
		first=
		IFS= read -r -n 64 first <"$file" || true
		if [[ $first =~ ^#!.*[/\ ](ba)?sh($|\ ) ]]; then
			files+=("$file")
		fi
		;;
	esac
done <<<"$tracked"
if [ "${#files[@]}" -lt 5 ]; then
	echo "check-shell: only ${#files[@]} scripts were found" >&2
	exit 1
fi
# grep -q ends at the first match. Whoever writes into the pipe may then be ended by SIGPIPE, and
# with pipefail the pipe fails although grep found it: now and then, on a busy machine.
if grep -nE '\|[[:space:]]*grep[^|;]* -[a-zA-Z]*q' "${files[@]}"; then
	echo "check-shell: no grep -q at the end of a pipe; write grep -q ... < <(command)" >&2
	exit 1
fi
shellcheck -x -e SC2016 -P SCRIPTDIR "${files[@]}"
echo "${#files[@]} scripts"
