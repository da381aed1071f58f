#!/usr/bin/env python3
"""Measures locked access (bin/locked): one operation compared with lock, access and unlock that
each wait for the one before.

On virtual time, where both ways have the same delays, and on shared memory; then reservations by
many initiators, each accounted for. Called by mechanisms.py.
"""
import argparse
import json
import pathlib
import subprocess
import sys

from rdma_report import table_lines

INITIATORS = (1, 2, 4, 8, 16, 32, 64)
DELAY = 20  # longest delay of a message, in steps
RUNS = 7  # repetitions of what depends on the machine's load
TARGET = 0.45  # ratio to the time of the three operations
ONE, THREE = "locked", "one_after_the_other"


def run(build, *args):
    out = subprocess.run([pathlib.Path(build) / "bin/locked", *map(str, args)], check=True,
                         capture_output=True, text=True)
    return json.loads(out.stdout)


def rows(build, quick=False):
    """The results, a dict each: mechanism, where, initiators, both figures of an addition, their
    ratio and its target; or, for reservations, their number, and how many were lost or made twice.
    """
    found = []
    for n in INITIATORS:
        cell = run(build, "chaos", n, 50 if quick else 500, DELAY)
        found.append(row("virtual time", "steps", n, cell, "steps_each", TARGET))
    for n in INITIATORS:
        cell = middle([run(build, "shm", n, (20_000 if quick else 100_000) // n)
                       for _ in range(1 if quick else RUNS)])
        # Shared memory has no network delay to wait for: with several initiators the scheduler
        # decides, so there is no target.
        found.append(row("shared memory", "ns", n, cell, "ns_each", TARGET if n == 1 else None))
    for n in (1, 8, 64):
        cell = run(build, "reserve", n, 20_000 if quick else 1_000_000)
        found.append({"mechanism": "locked access", "where": "reservations", "unit": "ns",
                      "initiators": n, **cell})
    return found


def middle(cells):
    """The run whose ratio is the median."""
    return sorted(cells,
                  key=lambda cell: cell[ONE]["ns_each"] / cell[THREE]["ns_each"])[len(cells) // 2]


def row(where, unit, n, cell, name, target):
    ratio = cell[ONE][name] / cell[THREE][name]
    return {"mechanism": "locked access", "where": where, "unit": unit, "initiators": n,
            "one": cell[ONE][name], "three": cell[THREE][name],
            "ratio": ratio, "refused": [cell[ONE]["refused"], cell[THREE]["refused"]],
            "target": target,
            "met": target is None or ratio <= target}


def markdown(found):
    lines = table_lines(["where", "initiators", "locked access", "one after the other", "ratio",
                         "refused tries", "target"],
                        [[each["where"], str(each["initiators"]),
                          f"{each['one']:.1f} {each['unit']}",
                          f"{each['three']:.1f} {each['unit']}",
                          f"{each['ratio']:.2f}", " / ".join(map(str, each["refused"])),
                          "-" if each["target"] is None
                          else f"≤ {each['target']:g}{'' if each['met'] else ': missed'}"]
                         for each in found if "ratio" in each])
    lines += ["", *table_lines(["reservations", "initiators", "each, with its return",
                                "did not fit", "lost", "twice"],
                               [[str(each["reservations"]), str(each["initiators"]),
                                 f"{each['ns_each']:.0f} ns", str(each["did_not_fit"]),
                                 str(each["lost"]), str(each["twice"])] for each in found
                                if "reservations" in each])]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--quick", action="store_true", help="less of each")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = rows(args.build, args.quick)
    print(json.dumps(found, indent=1) if args.json else "\n".join(markdown(found)))
    return 0 if all(each.get("met", True) for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
