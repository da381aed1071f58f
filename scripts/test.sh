#!/bin/bash
# make test: the tests for every change, 11 minutes on 2 cores including the build.
#
# test.sh --all, make test-all: everything. test.sh --ci: what .ci/run runs after make test: the
# tests that --all has in addition, except the soak and the real programs' configurations; in turn,
# one of the parts of test/rdma that are gated with clusters or rsockd's memory, a later Debian, or
# arm64.
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
	suites_containers
	suites_clusters
	suites_memory
	suites_next trixie
	suites_next sid
	suites_arm64
	for shard in $(rdma_shards); do
		suites_rdma "$shard"
	done
	suites_longest
	;;
--ci)
	suites_long 20
	suites_containers
	suites_in_turn
	;;
*)
	echo "usage: test.sh [--all | --ci]" >&2
	exit 2
	;;
esac
suites_run
