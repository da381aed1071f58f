#!/bin/bash
# rdma.sh [--quick | --rounds N --seconds S] [--only RUN,...]: the ways between two hosts with RDMA devices; see rdma.py.
# First what the guests need: packages, and a kernel, which is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-deps.sh scripts/packages-rdma.txt
test/rdma/guests.sh >/dev/null
exec python3 -B bench/rdma.py "$@"
