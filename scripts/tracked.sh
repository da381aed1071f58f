#!/bin/bash
# tracked.sh [PATTERN...]: the files that are in git or would be, ours only: nothing that git ignores, no third party.
set -euo pipefail
cd "$(dirname "$0")/.."
git -c safe.directory="$PWD" ls-files --cached --others --exclude-standard -- "${@:-.}" | sort -u | while IFS= read -r file; do
	case $file in
	third_party/*) ;;
	*) [ ! -f "$file" ] || printf '%s\n' "$file" ;;
	esac
done
