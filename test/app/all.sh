#!/bin/sh
# all.sh BINDIR [OPTION...]: runs every family in turn, e.g. `all.sh build/bin --list`, `all.sh
# build/bin --mode both --all`. The families read LIBRSOCK and RSOCK_TOOL from the environment.
bin=$1
shift
failed=0
for family in "$bin"/app_*; do
	case $family in
	*/app_static_cat) continue ;;
	esac
	[ "$1" = --list ] || echo "== ${family##*/}"
	"$family" "$@" || failed=1
done
exit $failed
