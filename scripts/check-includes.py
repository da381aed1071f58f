#!/usr/bin/env python3
"""Checks the #include lines: they go down only, as cmake/floors.txt says; include/ may be included
by all."""
import re
import subprocess
import sys
from pathlib import Path

import floors

ROOT = Path(__file__).resolve().parent.parent
MAY_SEE = {**floors.read(), "include": set()}
# Single headers of a folder that may not be included otherwise.
# Limits that hash use the library's hash.
BUT = {"bench/rsperf": {"hash.h"}, "bench/rdma": {"hash.h"}}
# Headers of libc that have the name of one of ours: <...> in a folder without ours is libc's.
OF_LIBC = {"link.h"}
BARE_VERBS = ("fabric/verbs", "test/rdma/prog/hostile", "bench/rdma/bulk")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def tracked(*patterns):
    out = subprocess.run([ROOT / "scripts/tracked.sh", *patterns], check=True, capture_output=True,
                         text=True)
    return [Path(line) for line in out.stdout.splitlines()]


def folder_of(path):
    return next((f for f in ("/".join(path.parts[:n]) for n in (3, 2, 1)) if f in MAY_SEE), None)


def main():
    files = tracked("*.c", "*.h", "*.S", "*.def")
    owners = {}
    for path in files:
        if folder_of(path) not in (None, "include") and path.suffix in (".h", ".def"):
            owners.setdefault(path.name, set()).add(folder_of(path))
    errors = []
    for name, folders in owners.items():
        if sum(f.split("/")[0] in ("fabric", "mapper", "stream", "preload", "mechanisms")
               and not f.startswith("mapper/rsockd") for f in folders) > 1:
            errors.append(f"{name}: in {', '.join(sorted(folders))}: which one is meant depends on "
                          f"flags")
    checked = 0
    for path in files:
        folder = folder_of(path)
        if not folder:
            continue
        checked += 1
        text = (ROOT / path).read_text(encoding="utf-8")
        for quote, name in INCLUDE.findall(text):
            # <sys/epoll.h> is not our epoll.h, whose folder is not among the include paths.
            base = Path(name).name if quote == '"' else name
            if ".." in Path(name).parts:
                errors.append(f"{path}: {name}: no way around the include paths")
            elif name.startswith("rsock/"):
                if not (ROOT / "include" / name).exists():
                    errors.append(f"{path}: {name}: not in include/")
            elif quote == '"' and (ROOT / path.parent / name).exists():
                continue
            elif (base in owners and not owners[base] & (MAY_SEE[folder] | {folder})
                  and name not in BUT.get(folder, ())
                  and not (quote == "<" and name in OF_LIBC)):
                errors.append(f"{path}: {name}: {folder}/ must not see "
                              f"{', '.join(sorted(owners[base]))}/")
            elif quote == '"' and base not in owners:
                errors.append(f"{path}: {name}: nowhere in the tree (system headers have angle "
                              f"brackets)")
            if re.match(r"infiniband/|rdma/", name) and not str(path).startswith(BARE_VERBS):
                errors.append(f"{path}: {name}: only {', '.join(BARE_VERBS)} see ibverbs")
    for error in errors:
        print(error)
    print(f"{checked} files")
    return 1 if errors or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
