#!/bin/bash
# make test: everything the project is tested by. Each line of the sum at the end is one suite.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh

# A suite that hangs is stopped, so that the others are still heard.
limited()
{
	local minutes=$1
	shift
	timeout -k 20 "${minutes}m" "$@"
}

run_step "packages" limited 15 scripts/install-deps.sh scripts/packages.txt scripts/packages-rdma.txt
run_step "guests' kernel" limited 10 test/rdma/guests.sh
run_step "build with gcc" limited 5 scripts/build.sh build -DCMAKE_C_COMPILER=gcc
run_step "tests" limited 30 scripts/ctest.sh build -LE '^rdma' -j "$(nproc)"
run_step "two hosts with RDMA devices" limited 10 scripts/ctest.sh build -L '^rdma-short$'
run_step "ASan and UBSan" limited 12 scripts/sanitize.sh address
run_step "TSan" limited 12 scripts/sanitize.sh thread
run_step "fuzz targets, 25 s each" limited 10 scripts/fuzz.sh 25
run_step "models" limited 12 test/model/run.sh
steps_end
