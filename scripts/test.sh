#!/bin/bash
# make test: what everybody runs, 12 minutes on 2 cores with the build.
# test.sh --all, make test-all: everything. test.sh --ci: what .ci/run runs behind make test, of the tests that
# --all has more: all but the soak, the real programs' configurations, and the three parts of test/rdma.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
. scripts/suites.sh

case ${1:-} in
'')
	suites_prepare
	suites_short
	;;
--all)
	suites_prepare
	suites_short
	suites_long 60
	for shard in $(rdma_shards); do
		suites_rdma "$shard"
	done
	suites_longest
	;;
--ci)
	suites_long 25
	;;
*)
	echo "usage: test.sh [--all | --ci]" >&2
	exit 2
	;;
esac
suites_run
