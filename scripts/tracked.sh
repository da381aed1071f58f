#!/bin/bash
# tracked.sh [PATTERN...]: lists the files that are in git or would be added, without ignored files
# and third-party code.
set -euo pipefail
cd "$(dirname "$0")/.."
git -c safe.directory="$PWD" ls-files --cached --others --exclude-standard -- "${@:-.}" | sort -u |
	while IFS= read -r file; do
		case $file in
		third_party/*) ;;
		*) [ ! -f "$file" ] || printf '%s\n' "$file" ;;
		esac
	done
