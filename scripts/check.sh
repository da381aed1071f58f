#!/bin/bash
# make check: what can be said of the tree without running it. One line a check in the sum at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh

shell_scripts()
{
	scripts/tracked.sh | while read -r file; do
		case $file in
		*.sh) echo "$file" ;;
		*) head -c 64 "$file" | head -1 | grep -qaE '^#!.*\b(ba)?sh\b' && echo "$file" ;;
		esac
	done
}

check_shell()
{
	local files
	mapfile -t files < <(shell_scripts)
	shellcheck -x -e SC2016 -P SCRIPTDIR "${files[@]}"
}

check_python()
{
	local files
	mapfile -t files < <(scripts/tracked.sh '*.py')
	[ "${#files[@]}" -eq 0 ] || python3 -W error - "${files[@]}" <<-'END'
		import ast, pathlib, sys
		for name in sys.argv[1:]:
		    ast.parse(pathlib.Path(name).read_text(encoding="utf-8"), name)
	END
}

mkdir -p build
run_step "no warnings: gcc" scripts/build.sh build -DCMAKE_C_COMPILER=gcc
run_step "no warnings: clang" scripts/build.sh build/clang -DCMAKE_C_COMPILER=clang
run_step "format" scripts/check-format.sh
run_step "include directions" scripts/check-includes.py
run_step "symbols of the library" scripts/check-symbols.py build
run_step "shell scripts" check_shell
run_step "python scripts" check_python
run_step "paths, lengths, names" scripts/check-tree.py
run_step "knobs are documented" scripts/check-knobs.py
if [ -x scripts/gen-docs.sh ]; then
	run_step "generated documentation is current" scripts/gen-docs.sh --check
fi
run_step "clang-tidy" scripts/check-tidy.sh build/clang
steps_end
