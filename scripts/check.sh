#!/bin/bash
# make check: what can be said of the tree without running it. One line a check in the sum at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh

mkdir -p build
run_step "no warnings: gcc" scripts/build.sh build -DCMAKE_C_COMPILER=gcc
run_step "no warnings: clang" scripts/build.sh build/clang -DCMAKE_C_COMPILER=clang
run_step "format" scripts/check-format.sh
run_step "include directions" scripts/check-includes.py
run_step "calls go down, no circles" scripts/check-calls.py build
run_step "the library alone, presets" scripts/check-alone.sh
run_step "symbols of the library" scripts/check-symbols.py build
run_step "hardening: gcc" scripts/check-hardening.sh build
run_step "hardening: clang" scripts/check-hardening.sh build/clang
run_step "shell scripts" scripts/check-shell.sh
run_step "python scripts" scripts/check-python.sh
run_step "paths, lengths, names" scripts/check-tree.py
run_step "knobs are documented" scripts/check-knobs.py
if [ -x scripts/gen-docs.sh ]; then
	run_step "generated documentation is current" scripts/gen-docs.sh --check
fi
run_step "clang-tidy" scripts/check-tidy.sh build/clang
steps_end
