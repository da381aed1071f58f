#!/bin/bash
# check-hardening.sh BUILD: checks that what is installed is linked and compiled as
# docs/adr/hardening.md says.
set -euo pipefail
build=$1
cd "$(dirname "$0")/.."
failed=0

wrong()
{
	echo "$1: $2"
	failed=1
}

# has FILE PATTERN READELF-OPTION TEXT
has()
{
	local text
	text=$(readelf "$3" -W "$1")
	grep -qE "$2" <<<"$text" || wrong "$1" "$4"
}

# linked FILE: checks for all files.
linked()
{
	local dynamic
	dynamic=$(readelf -dW "$1")
	has "$1" 'GNU_RELRO' -l "no RELRO"
	grep -qE '\((BIND_NOW|FLAGS|FLAGS_1)\).*\b(BIND_NOW|NOW)\b|\(BIND_NOW\)' <<<"$dynamic" ||
		wrong "$1" "binds lazily"
	! grep -q 'TEXTREL' <<<"$dynamic" || wrong "$1" "has text relocations"
	has "$1" 'GNU_STACK .* RW +0x' -l "an executable stack"
	has "$1" '^ *Type: +DYN' -h "cannot lie anywhere"
}

for name in librsock librsock-verbs; do
	linked "$build/lib/$name.so"
	has "$build/lib/$name.so" 'UND __stack_chk_fail' -s "no stack protector"
	# The fortified functions would call our own hooks.
	if readelf -sW "$build/lib/$name.so" | grep -E 'UND __\w+_chk\b'; then
		wrong "$build/lib/$name.so" "calls fortified twins"
	fi
done
for name in rsock rsockd rsperf; do
	linked "$build/bin/$name"
	has "$build/bin/$name" '\(FLAGS_1\).*\bPIE\b' -d "no PIE"
	has "$build/bin/$name" 'UND __stack_chk_fail' -s "no stack protector"
	has "$build/bin/$name" 'UND __\w+_chk\b' -s "no fortified call"
done
# Checks the flags of each source, except those that a call on a stream passes through.
jq -r '.[] | .file + "\t" + .command' "$build/compile_commands.json" | {
	sources=0
	while IFS=$'\t' read -r file command; do
		# Skips sources that a test has compiled for itself.
		case $command in
		*/rsk_*.dir/* | */rsockd.dir/* | */rsock_tool.dir/* | */rsperf.dir/*) ;;
		*) continue ;;
		esac
		file=${file#"$PWD/"}
		case $file in
		mapper/*.c | tools/*.c | fabric/verbs/*.c | bench/rsperf/*.c) ;;
		*) continue ;;
		esac
		sources=$((sources + 1))
		[[ $command == *-fstack-protector-strong*-fstack-clash-protection* ]] ||
			wrong "$file" "no stack protector"
		case $file in
		mapper/pm/*.c | mapper/host/*.c | mapper/config/*.c | mapper/policy/*.c | \
			mapper/local/*.c | mapper/rsockd/*.c | tools/*.c | bench/rsperf/*.c)
			[[ $command == *-D_FORTIFY_SOURCE=2* ]] || wrong "$file" "not fortified"
			;;
		esac
	done
	if [ "$sources" -lt 100 ]; then
		wrong "$build" "only $sources sources were found"
	fi
	echo "$sources sources, 2 libraries, 3 programs"
	[ "$failed" -eq 0 ]
}
