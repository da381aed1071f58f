# shellcheck shell=bash
# Sourced by the scripts that run tests in a root of their own: where its packages come from, and
# what is mounted there.

# apt's own mirror and keys: the package lists that this system uses.
mirror()
{
	apt-get indextargets --format '$(SITE)' 'Created-By: Packages' \
		"Codename: $(codename)" | head -n 1
}

codename()
{
	sed -n 's/^VERSION_CODENAME=//p' /etc/os-release
}

# Is @1 made of @2? Otherwise it is to be made anew.
made_of()
{
	[ -e "$1/made-of" ] && [ "$(<"$1/made-of")" = "$2" ]
}

# Mounts into the root @1 what tests need, and this tree at its path. For a process in namespaces of
# its own (unshare --mount --pid --net --ipc): what is mounted here ends with them, and so does what
# tests leave behind.
mount_root()
{
	mount --rbind "$1" "$1" # a mount point, for pivot_root
	mount -t proc proc "$1/proc"
	mount --rbind /dev "$1/dev"
	mount -t tmpfs -o mode=1777 shm "$1/dev/shm"
	mount --rbind /sys "$1/sys"
	mount -t tmpfs -o mode=755 run "$1/run"
	# Not a tmpfs: unit_document_keep has to see a write before it has ended.
	find "$1/tmp" -mindepth 1 -delete
	chmod 1777 "$1/tmp"
	mkdir -p "$1$PWD"
	mount --bind "$PWD" "$1$PWD"
	mount -t proc proc /proc
	ip link set lo up
}
