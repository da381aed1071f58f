#!/bin/bash
# make test-rdma, or with --short make test-rdma-short: tests between two hosts with RDMA devices,
# which are QEMU guests (test/rdma/README.md). --part N: one of the parts.
# Other arguments go to ctest: -R rdma.lab runs that script alone.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
. scripts/suites.sh

case ${1:-} in
--short)
	labels=rdma-short
	shift
	;;
--part)
	labels=rdma-part-$2
	shift 2
	;;
-*)
	labels=rdma
	;;
*)
	labels=$(rdma_shards | sed 's/^/rdma-part-/')
	;;
esac

suite "packages" limited 15 scripts/install-deps.sh scripts/packages-rdma.txt
suite "guests' kernel" limited 10 test/rdma/guests.sh
for label in $labels; do
	suite "tests, $label" timeout -k 60 60m scripts/ctest.sh build -L "^$label\$" "$@"
done
suites_run
