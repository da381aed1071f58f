"""Reads cmake/floors.txt, the table of which folder may include and call which, for the checks."""
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def read():
    """For each folder all folders that it may use. A folder that a line names has its line above,
    so there is no circle."""
    sees = {}
    for line in (ROOT / "cmake/floors.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        folder, below = line.split(":")
        sees[folder] = set()
        for one in below.split():
            if one not in sees or one == folder:
                raise SystemExit(f"cmake/floors.txt: {folder} sees {one}, which has no line above "
                                 f"it")
            sees[folder] |= {one} | sees[one]
    return sees
