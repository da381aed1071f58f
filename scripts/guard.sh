#!/bin/bash
# guard.sh [--update]: compares instructions per call with test/guard/bounds.json; --update writes
# new bounds from build/.
set -euo pipefail
exec python3 -B "$(dirname "$0")/../test/guard/guard.py" "$@"
