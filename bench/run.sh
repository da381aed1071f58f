#!/bin/bash
# run.sh [--quick | --rounds N --seconds S] [--only ROW,...]: make bench; compares librsock with
# kernel TCP, see compare.py.
set -euo pipefail
exec python3 -B "$(dirname "$0")/compare.py" "$@"
