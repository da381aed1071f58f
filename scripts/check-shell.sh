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
		if head -c 64 "$file" | head -1 | grep -qaE '^#!.*\b(ba)?sh\b'; then
			files+=("$file")
		fi
		;;
	esac
done <<<"$tracked"
if [ "${#files[@]}" -lt 5 ]; then
	echo "check-shell: only ${#files[@]} scripts were found" >&2
	exit 1
fi
shellcheck -x -e SC2016 -P SCRIPTDIR "${files[@]}"
echo "${#files[@]} scripts"
