#!/usr/bin/env python3
"""Measures the read path: a mailbox in shared memory whose owner updates it continuously, and
another process that obtains it.

Several rounds for each size; medians, with the lowest and the highest. "Obtained" is a message
whose hash is right and that is newer than the last one. The other attempts found a torn message,
which its hash shows, or nothing newer. Called by mechanisms.py.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

import stages
from rdma_report import table_lines

MAILBOX = stages.BUILD / "bin" / "mailbox"
SIZES = (16, 32, 64, 128, 232)
FULL, QUICK = (2.0, 5), (0.3, 3)  # seconds for each size and round, rounds
HEADS = ["message, bytes", "get and check, ns", "publish, ns", "obtained, ns", "gets for it",
         "torn"]


def once(seconds, sizes=SIZES):
    """The output of one run of the program, a dict for each size, with the number of gets for each
    message."""
    done = subprocess.run([MAILBOX, str(seconds * len(sizes)), *map(str, sizes)],
                          capture_output=True, text=True, check=True,
                          timeout=60 + 3 * seconds * len(sizes))
    return [{**cell, "gets_each": cell["gets"] / cell["whole"],
             "torn_share": cell["torn"] / cell["gets"]}
            for cell in json.loads(done.stdout)["mailbox"]]


def measure(seconds, rounds, sizes=SIZES):
    """The cells of mechanisms' result file: a dict for each size, with the samples of all rounds of
    each figure."""
    found = [once(seconds, sizes) for _ in range(rounds)]
    return [{"size_bytes": of[0]["size_bytes"],
             **{name: [each[name] for each in of] for name in of[0] if name != "size_bytes"}}
            for of in zip(*found)]


def spread(samples, digits=0, times=1):
    samples = [each * times for each in samples]
    return (f"{statistics.median(samples):,.{digits}f} "
            f"({min(samples):,.{digits}f} to {max(samples):,.{digits}f})")


def rows(cells):
    """The rows of a table with HEADS."""
    return [[str(cell["size_bytes"]), spread(cell["still_ns"]), spread(cell["publish_ns"]),
             spread(cell["message_ns"]),
             spread(cell["gets_each"], 1), spread(cell["torn_share"], 1, 100) + " %"]
            for cell in cells]


def markdown(cells):
    return table_lines(HEADS, rows(cells))


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--quick", action="store_true",
                   help=f"{QUICK[1]} rounds of {QUICK[0]} s a size, in place of {FULL[1]} of "
                        f"{FULL[0]} s")
    p.add_argument("--json", type=pathlib.Path, help="the samples, too")
    args = p.parse_args()
    cells = measure(*(QUICK if args.quick else FULL))
    if args.json:
        args.json.write_text(json.dumps(cells, indent=1) + "\n")
    print("\n".join(markdown(cells)))


if __name__ == "__main__":
    main()
