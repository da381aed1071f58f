"""cmake/floors.txt: which folder may include and call which; for the checks."""
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def read():
    """By folder: all folders that its line leads to. What a line names has a line above it, so there is no circle."""
    sees = {}
    for line in (ROOT / "cmake/floors.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        folder, below = line.split(":")
        sees[folder] = set()
        for one in below.split():
            if one not in sees or one == folder:
                raise SystemExit(f"cmake/floors.txt: {folder} sees {one}, which has no line above it")
            sees[folder] |= {one} | sees[one]
    return sees
