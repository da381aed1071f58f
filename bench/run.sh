#!/bin/bash
# run.sh [--quick | --rounds N --seconds S] [--only ROW,...]: librsock against kernel TCP; see compare.py.
set -euo pipefail
exec python3 -B "$(dirname "$0")/compare.py" "$@"
