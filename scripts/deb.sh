#!/bin/bash
# deb.sh: builds Debian packages of the tree as it is (committed or not) into build/deb/, in a copy,
# so that the tree stays clean.
set -euo pipefail
cd "$(dirname "$0")/.."
out=build/deb

fail()
{
	echo "deb: $*" >&2
	exit 1
}

# The version is given in three places, which must agree.
version=$(sed -n 's/^project(rsock VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
packaged=$(dpkg-parsechangelog -S Version)
if [ -z "$version" ] || [ "${packaged%-*}" != "$version" ]; then
	fail "CMakeLists.txt says version '$version', debian/changelog '$packaged'"
fi
grep -qE "^## (Unreleased|${version//./\\.}\b)" CHANGELOG.md ||
	fail "CHANGELOG.md has nothing of $version"

rm -rf "$out"
mkdir -p "$out/source"
git -c safe.directory="$PWD" ls-files -z --cached --others --exclude-standard |
	while IFS= read -r -d '' file; do
		if [ -f "$file" ] || [ -L "$file" ]; then printf '%s\0' "$file"; fi
	done | tar -c --null -T - | tar -x -C "$out/source"

log=$out/build.log
if ! (cd "$out/source" && exec dpkg-buildpackage -us -uc -b -jauto) >"$log" 2>&1; then
	tail -n 60 "$log" >&2
	fail "see $log"
fi
# A preload library is small and affects every program, so no warning is accepted.
if grep -E '(^|/)[a-z_/]+\.[ch]:[0-9]+:[0-9]+: warning:' "$log" >&2; then
	fail "the compiler warns with Debian's flags"
fi
ls -1 "$out"/*.deb
