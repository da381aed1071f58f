#!/bin/bash
# check.sh [--text]: runs the static checks of the tree. Each check has one line in the table at the
# end. --text: those alone that read sources and need no build, some 15 seconds: before each commit.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh

mkdir -p build
if [ "${1:-}" != --text ]; then
	suite "no warnings: gcc" scripts/build.sh build -DCMAKE_C_COMPILER=gcc
	suite "no warnings: clang" scripts/build.sh build/clang -DCMAKE_C_COMPILER=clang
	suite "calls go down, no circles" scripts/check-calls.py build
	suite "production runs what it has" scripts/check-callers.py build
	suite "the library alone, presets" scripts/check-alone.sh
	suite "symbols of the library" scripts/check-symbols.py build
	suite "hardening: gcc" scripts/check-hardening.sh build
	suite "hardening: clang" scripts/check-hardening.sh build/clang
fi
suite "format" scripts/check-format.sh
suite "include directions" scripts/check-includes.py
suite "shell scripts" scripts/check-shell.sh
suite "python scripts" scripts/check-python.sh
suite "paths, lengths, names" scripts/check-tree.py
suite "words of the field" scripts/check-words.py
suite "knobs are documented" scripts/check-knobs.py
suite "system calls that a filter has to let through" scripts/check-needed.py
suite "demands of the specifications" scripts/check-conformance.py
if [ -x scripts/gen-docs.sh ]; then
	suite "generated documentation is current" scripts/gen-docs.sh --check
fi
if [ "${1:-}" != --text ]; then
	suite "clang-tidy" scripts/check-tidy.sh build/clang
fi
suites_run
