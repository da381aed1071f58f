#!/bin/bash
# demo.sh: runs iperf3, redis and nginx with and without librsock, in about a minute; see
# bench/demo.py.
set -euo pipefail
exec python3 -B "$(dirname "$0")/../bench/demo.py" "$@"
