#!/bin/bash
# rdma.sh [--quick | --rounds N --seconds S] [--only RUN,...]: compares transports between two hosts
# with RDMA devices; see rdma.py.
#
# rdma.sh paper | cost | counts | failover [...]: the experiment of the dynamic transfer
# (rdma_paper.py); what streams and links cost (rdma_cost.py); work requests, system calls and
# instructions of a message (rdma_counts.py); how long a stream stalls when a rail fails
# (rdma_failover.py).
#
# It first installs what the guests need: packages, and a kernel, which is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-deps.sh scripts/packages-rdma.txt
test/rdma/guests.sh >/dev/null
program=rdma
case "${1:-}" in
paper | cost | counts | failover)
	program=rdma_$1
	shift
	;;
esac
exec python3 -B "bench/$program.py" "$@"
