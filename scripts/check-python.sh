#!/bin/bash
# check-python.sh: checks that every Python file of the tree can be parsed without a warning.
set -euo pipefail
cd "$(dirname "$0")/.."
tracked=$(scripts/tracked.sh '*.py')
mapfile -t files <<<"$tracked"
if [ "${#files[@]}" -lt 5 ]; then
	echo "check-python: only ${#files[@]} files were found" >&2
	exit 1
fi
python3 -W error - "${files[@]}" <<-'END'
	import ast, pathlib, sys
	for name in sys.argv[1:]:
	    ast.parse(pathlib.Path(name).read_text(encoding="utf-8"), name)
	print(len(sys.argv) - 1, "files")
END
