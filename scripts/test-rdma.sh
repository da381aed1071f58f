#!/bin/bash
# make test-rdma, or with --short make test-rdma-short: what is tested between two hosts with RDMA devices, which are QEMU
# guests (test/rdma/README.md). Arguments go to ctest: -R rdma.lab runs that script alone.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh

label=rdma
if [ "${1:-}" = --short ]; then
	label=rdma-short
	shift
fi

run_step "packages" timeout -k 20 15m scripts/install-deps.sh scripts/packages-rdma.txt
run_step "guests' kernel" timeout -k 20 10m test/rdma/guests.sh
run_step "tests" timeout -k 60 60m scripts/ctest.sh build -L "^$label\$" "$@"
steps_end
