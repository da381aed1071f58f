#!/bin/bash
# sanitize.sh address|thread: builds with that sanitizer; runs the unit tests and those labelled
# sanitize; with address also the cases of test/app, in which ASan and UBSan are loaded with the
# library. ASan and UBSan use gcc, whose runtime is a library that can be preloaded with ours; TSan
# uses clang, which supports fences.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=$1
case $kind in
address) compiler=gcc ;;
thread) compiler=clang ;;
*)
	echo "usage: sanitize.sh address|thread" >&2
	exit 2
	;;
esac
symbolizer=$(command -v llvm-symbolizer-14 || command -v llvm-symbolizer || true)
export ASAN_OPTIONS="detect_stack_use_after_return=1:strict_string_checks=1"
ASAN_OPTIONS+=":external_symbolizer_path=$symbolizer"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:external_symbolizer_path=$symbolizer"
mkdir -p build
# No -Werror: gcc's flow warnings are wrong for instrumented code. The plain builds check warnings.
scripts/build.sh "build/$kind" -DCMAKE_C_COMPILER=$compiler -DRSK_SANITIZE="$kind" -DRSK_WERROR=OFF
# The sanitizers' shadow memory conflicts with wide address randomization, so that is off for the
# tests, if a container permits it.
plain=()
if setarch "$(uname -m)" -R true 2>/dev/null; then
	plain=(setarch "$(uname -m)" -R)
fi
exec "${plain[@]}" scripts/ctest.sh "build/$kind" -j "$(nproc)" -L '^(unit|sanitize)$'
