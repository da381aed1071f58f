#!/bin/bash
# rdma.sh [--quick | --rounds N --seconds S] [--only RUN,...]: the ways between two hosts with RDMA devices; see rdma.py.
# rdma.sh paper | cost [...]: the experiment of the dynamic transfer, rdma_paper.py; what streams and links cost, rdma_cost.py.
# First what the guests need: packages, and a kernel, which is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-deps.sh scripts/packages-rdma.txt
test/rdma/guests.sh >/dev/null
program=rdma
if [ "${1:-}" = paper ] || [ "${1:-}" = cost ]; then
	program=rdma_$1
	shift
fi
exec python3 -B "bench/$program.py" "$@"
