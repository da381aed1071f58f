#!/usr/bin/env python3
"""Measures what ordered delivery costs a packet, also as a share of its slot: in order, and over 2
and 4 rails, by each form of the index.

Compares both state machines of stream/ring/order.h (tag, put, acknowledgement; the receiver's
queue) with the ring's own cost of the same slot, in one thread and one run (bench/order.c). Called
by mechanisms.py.
"""
import argparse
import dataclasses
import json
import subprocess
import sys

import stages
from rdma_report import table_lines

ORDER = stages.BUILD / "bin" / "order"
FORMS = ("wrapping:13+keep", "wrapping:13+stop", "relative:12+keep")
SIZES = (64, 16384)
RAILS = ("1", "2", "4")
SECONDS, QUICK_SECONDS = 4, 0.8  # for each form


@dataclasses.dataclass(frozen=True)
class Row:
    form: str
    size_bytes: int
    rails: int
    ring_ns: float  # a slot without ordering
    order_ns: float  # a packet, both ends

    @property
    def percent(self):
        return 100 * self.order_ns / self.ring_ns


def rows_of(said):
    """Rows from the output of bench/order.c."""
    found = json.loads(said)
    return [Row(found["form"], each["size_bytes"], int(rails), each["ring_ns"],
                each["order_ns"][rails])
            for each in found["packets"] for rails in RAILS]


def measure(seconds=SECONDS, forms=FORMS, sizes=SIZES):
    """Runs bench/order.c; returns a Row for each form, size and number of rails."""
    rows = []
    for form in forms:
        done = subprocess.run([str(ORDER), str(seconds), form, *map(str, sizes)],
                              capture_output=True, text=True,
                              timeout=seconds + 30, check=False)
        if done.returncode:
            raise stages.Failure(f"{ORDER} {form}: "
                                 f"{done.stderr.strip() or f'status {done.returncode}'}")
        rows += rows_of(done.stdout)
    return rows


def markdown(rows):
    cells = {}
    for row in rows:
        cells.setdefault((row.form, row.size_bytes, row.ring_ns),
                         []).append(f"{row.order_ns:.1f} ({row.percent:.1f} %)")
    heads = ["index", "slot, bytes", "ring, ns", "order in order, ns (of the ring)", "2 rails",
             "4 rails"]
    return table_lines(heads, [[form, str(size), f"{ring:.1f}", *texts]
                               for (form, size, ring), texts in cells.items()])


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--quick", action="store_true",
                   help=f"{QUICK_SECONDS} s a form in place of {SECONDS}")
    p.add_argument("--json", action="store_true", help="rows as JSON, one a line")
    args = p.parse_args()
    if not ORDER.exists():
        sys.exit(f"missing: {ORDER} (make build builds it)")
    rows = measure(QUICK_SECONDS if args.quick else SECONDS)
    if args.json:
        for row in rows:
            print(json.dumps({**dataclasses.asdict(row), "percent": row.percent}))
    else:
        print("\n".join(markdown(rows)))


if __name__ == "__main__":
    main()
