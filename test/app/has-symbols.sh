#!/bin/sh
# has-symbols.sh PROGRAM SYMBOL...: fails unless the program calls each of these symbols.
program=$1
shift
symbols=$(nm -D --undefined-only "$program") || exit 1
for symbol in "$@"; do
	case $symbols in
	*" $symbol"*) ;;
	*)
		echo "$program does not call $symbol"
		exit 1
		;;
	esac
done
