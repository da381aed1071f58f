#!/bin/bash
# install-deps.sh [LIST...]: installs the packages of the lists (scripts/packages.txt) that are
# missing; does nothing if all are there.
set -euo pipefail
cd "$(dirname "$0")/.."
export DEBIAN_FRONTEND=noninteractive
apt_options=(-o DPkg::Lock::Timeout=300 -o APT::Get::Assume-Yes=true -q)

[ "$#" -gt 0 ] || set -- scripts/packages.txt
mapfile -t wanted < <(sed -E 's/#.*//; s/[[:space:]]+//g; /^$/d' "$@")
installed=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' 2>/dev/null |
	sed -n 's/^ii *//p' | sort -u)
mapfile -t missing < <(comm -23 <(printf '%s\n' "${wanted[@]}" | sort -u) \
	<(printf '%s\n' "$installed"))
[ "${#missing[@]}" -gt 0 ] || exit 0

echo "missing: ${missing[*]}"
if [ "$(id -u)" -ne 0 ]; then
	echo "install-deps: not root; install these first" >&2
	exit 1
fi

# Packages of servers start them. policy-rc.d forbids that; ours exists only while apt runs.
policy=/usr/sbin/policy-rc.d
mark='# librsock: services stay off while its packages are installed'
if [ -e "$policy" ] && grep -qxF "$mark" "$policy"; then
	rm -f "$policy" # left by a run that was killed
fi
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	printf '#!/bin/sh\n%s\nexit 101\n' "$mark" >"$policy"
	chmod 755 "$policy"
fi

# A fresh image has no package lists, an old one has stale ones: update if the first attempt fails.
if ! apt-get "${apt_options[@]}" install --no-install-recommends "${missing[@]}"; then
	apt-get "${apt_options[@]}" update
	apt-get "${apt_options[@]}" install --no-install-recommends "${missing[@]}"
fi
