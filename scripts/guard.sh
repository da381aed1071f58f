#!/bin/bash
# guard.sh [--update]: instructions per call against test/guard/bounds.json; --update writes those anew from build/.
set -euo pipefail
exec python3 -B "$(dirname "$0")/../test/guard/guard.py" "$@"
