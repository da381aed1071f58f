#!/bin/bash
# mutants.sh [PATTERN]: breaks the sources one line at a time, in a copy of the tree, and checks
# that the test for that line fails. The changes are the lines of scripts/mutants.txt; PATTERN: only
# those that match. Run by hand (make mutants).
set -euo pipefail
cd "$(dirname "$0")/.."
pattern=${1:-.}
# The copy has a fixed place, so that its build is reused.
copy=build/mutants
mkdir -p "$copy"
rm -rf "$copy/new"
mkdir -p "$copy/new" "$copy/tree"
git -c safe.directory="$PWD" ls-files -z --cached --others --exclude-standard |
	while IFS= read -r -d '' file; do
		if [ -f "$file" ] || [ -L "$file" ]; then printf '%s\0' "$file"; fi
	done | tar -c --null -T - | tar -x -C "$copy/new"
# Keeps the copy's build folder.
[ ! -d "$copy/tree/build" ] || mv "$copy/tree/build" "$copy/new/build"
rm -rf "$copy/tree"
mv "$copy/new" "$copy/tree"
cd "$copy/tree"
caught=0
missed=()
while IFS=$'\t' read -r file expression test what; do
	case $file in '' | '#'*) continue ;; esac
	if ! grep -qE "$pattern" <<<"$file $test $what"; then
		continue
	fi
	cp "$file" ../right
	sed -i -E "$expression" "$file"
	case $test in
	unit_*) target=$test ;;
	*) target=all ;;
	esac
	if cmp -s "$file" ../right; then
		verdict="STALE: it changes nothing"
	elif ! TARGET=$target scripts/build.sh build -DCMAKE_C_COMPILER=gcc \
		-DRSK_WERROR=OFF >../log 2>&1; then
		verdict="STALE: it does not compile"
	elif ! grep -qE '^Total Tests: [1-9]' < <(ctest --test-dir build -N -R "^($test)\$"); then
		verdict="STALE: no such test"
	elif ctest --test-dir build -R "^($test)\$" --timeout 120 >../log 2>&1; then
		verdict="MISSED"
	else
		verdict=caught
	fi
	# Restores the file with a time newer than what was built from the mutant.
	cat ../right >"$file"
	printf '%-7s %-24s %-40s %s\n' "$verdict" "$file" "$test" "$what"
	if [ "$verdict" = caught ]; then
		caught=$((caught + 1))
	else
		missed+=("$what")
	fi
done <../../../scripts/mutants.txt
printf '%d caught, %d not\n' "$caught" "${#missed[@]}"
[ "$caught" -gt 0 ] && [ "${#missed[@]}" -eq 0 ]
