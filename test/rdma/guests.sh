#!/bin/bash
# guests.sh: prints the folder of a kernel for the guests; makes it if there is none yet: vmlinuz,
# initrd.gz, modules/. rdmalab.py calls it.
#
# The kernel is Debian's, the newest 6.12 that apt offers (6.1 cannot do SMC-R over rxe, which
# comparisons need), with only those modules that tests use. It is kept under
# ${RSOCK_RDMA_CACHE:-${XDG_CACHE_HOME:-~/.cache}/librsock/rdma}. When this script has changed a new
# one is made beside those from which guests of other checkouts may be running. RSOCK_RDMA_DEB: a
# package file to use in place of a download.
set -euo pipefail
cd "$(dirname "$0")"
cache=${RSOCK_RDMA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/librsock/rdma}
pattern='^linux-image-6\.12\.[0-9]+\+deb12-amd64-unsigned$'
# First those that the initrd needs to mount this machine's files; then the rest.
first=(virtio_pci 9pnet_virtio 9p overlay)
modules=("${first[@]}" virtio_net virtio_console
	ib_uverbs rdma_cm rdma_ucm rdma_rxe crc32_generic
	dummy veth bridge macvlan
	sch_netem sch_prio sch_tbf sch_ingress cls_u32 cls_flower cls_matchall act_gact act_mirred
	inet_diag tcp_diag udp_diag unix_diag smc smc_diag tls)

fail()
{
	echo "guests.sh: $*" >&2
	exit 1
}

[ "$(uname -m)" = x86_64 ] || fail "only x86_64 guests are known"
for tool in modprobe depmod cpio xz dpkg-deb busybox; do
	PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null ||
		fail "no $tool: scripts/install-deps.sh scripts/packages-rdma.txt"
done
PATH=$PATH:/usr/sbin:/sbin
key=$(cat guests.sh inside/init | sha256sum | cut -d' ' -f1)

# The newest one that this script made; a download is worth it only where there is none.
ready()
{
	local folder newest=
	while IFS= read -r folder; do
		[ "$(cat "$folder/key" 2>/dev/null)" != "$key" ] || newest=$folder
	done < <(find "$cache" -mindepth 1 -maxdepth 1 -type d -name '6.*' 2>/dev/null | sort -V)
	[ -n "$newest" ] && touch "$newest/key" && printf '%s\n' "$newest"
}

mkdir -p "$cache"
exec 9>"$cache/lock"
flock -w 600 9 || fail "somebody else has been at work in $cache for ten minutes"
! ready || exit 0

work=$(mktemp -d "$cache/new.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# ---- the package ----
deb=${RSOCK_RDMA_DEB:-}
if [ -z "$deb" ]; then
	newest()
	{
		apt-cache --names-only search "$pattern" | cut -d' ' -f1 | sort -V | tail -1
	}
	download()
	{
		(cd "$work" && apt-get -q -o APT::Sandbox::User="$(id -un)" download "$1") >&2
	}
	package=$(newest)
	# Old package lists name a package that has left the archive.
	if [ -z "$package" ] || ! download "$package"; then
		apt-get -q update >&2 || true
		package=$(newest)
		[ -n "$package" ] || fail "apt offers no kernel of the name $pattern"
		download "$package" || fail "apt cannot download $package"
	fi
	deb=$(find "$work" -name '*.deb')
fi
# Without the drivers of hardware that a guest does not have: that saves half of the time.
mkdir "$work/ext"
dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$work/ext" --wildcards --exclude='*/kernel/sound' \
	--exclude='*/kernel/drivers/'{gpu,media,staging,iio,usb,scsi,input,hwmon,ata} \
	--exclude='*/kernel/drivers/'{mmc,mtd,nvme,md} \
	--exclude='*/kernel/drivers/net/'{ethernet,wireless,usb,can} --exclude='*/usr/share/doc'
version=$(ls "$work/ext/lib/modules" 2>/dev/null) || version=$(ls "$work/ext/usr/lib/modules")
tree=$(dirname "$(find "$work/ext" -path "*/lib/modules/$version/kernel")")
made=$work/made
mkdir -p "$made/modules/$version"
cp "$work/ext/boot/vmlinuz-$version" "$made/vmlinuz"

# ---- modules: those named and what they need, unpacked here since a guest is slow ----
mkdir -p "$work/all/lib/modules"
mv "$tree" "$work/all/lib/modules/$version"
depmod -b "$work/all" "$version"
needs()
{
	local module
	for module; do
		modprobe -d "$work/all" -S "$version" --show-depends "$module" >"$work/needs" ||
			fail "the kernel $version has no module $module"
		# Options follow the file.
		sed -nE 's/^insmod (.*\.ko(\.xz)?).*/\1/p' "$work/needs"
	done | awk '!seen[$0]++'
}
# fail ends only a subshell of that pipeline; pipefail passes its status on, and the script ends.
needs "${modules[@]}" >"$work/files"
mkdir -p "$work/few/lib/modules/$version"
while IFS= read -r file; do
	to=$work/few/lib/modules/${file#"$work/all/lib/modules/"}
	mkdir -p "$(dirname "$to")"
	case $file in
	*.xz) xz -dc "$file" >"${to%.xz}" ;;
	*) cp "$file" "$to" ;;
	esac
done <"$work/files"
cp "$work/all/lib/modules/$version"/modules.{order,builtin,builtin.modinfo} \
	"$work/few/lib/modules/$version/"
depmod -b "$work/few" "$version"
mv "$work/few/lib/modules/$version" "$made/modules/"

# ---- initrd ----
mkdir -p "$work/initrd"/{bin,dev,proc,sys,lower,upper,new,modules}
cp "$(command -v busybox)" "$work/initrd/bin/busybox"
cp inside/init "$work/initrd/init"
chmod 755 "$work/initrd/init"
count=10
needs "${first[@]}" >"$work/files"
while IFS= read -r file; do
	name=$(basename "${file%.xz}")
	find "$made/modules" -name "$name" -exec cp {} "$work/initrd/modules/$count-$name" \;
	count=$((count + 1))
done <"$work/files"
(cd "$work/initrd" && find . | LC_ALL=C sort | cpio -o -H newc --quiet -R 0:0) |
	gzip -6 >"$made/initrd.gz"

echo "$key" >"$made/key"
chmod -R u=rwX,go=rX "$made"
kept=$cache/$version-${key:0:12}
rm -rf "$kept"
mv "$made" "$kept"
# Removes those that were not used for a month.
find "$cache" -mindepth 2 -maxdepth 2 -name key -mtime +30 -printf '%h\0' | xargs -0 -r rm -rf
ready || fail "made $kept, and cannot find it"
