#!/usr/bin/env python3
"""Kernel TCP against librsock, spinning and sleeping, interleaved in rounds; medians, spread and ratios.

The machine decides the figures, so the ratios of one run are what counts. Every accelerated row says how
its streams travelled: a row that stayed on TCP says so.
"""
import argparse
import json
import pathlib
import random
import statistics
import sys
import time

import harness
from harness import ONE_SIDE, SLEEP, SPIN, TCP, UNIX, Failure, Stage, Travel
from rows import ROWS

NOISE = 0.05  # a ratio this close to 1 is no gain; nor is one whose samples overlap


class Cell:
    """All samples of one row in one mode."""

    def __init__(self):
        self.samples = []
        self.travel = Travel()
        self.errors = []

    def median(self):
        return statistics.median(self.samples)

    def spread(self):
        return (max(self.samples) - min(self.samples)) / self.median()


def measure(row, mode, seconds, cell):
    try:
        with Stage(mode) as stage:
            figure, travel = row.run(stage, seconds)
    except Failure as e:
        cell.errors.append(str(e))
        print(f"{row.key} {mode.name}: {e}", file=sys.stderr)
        return
    cell.samples.append(figure * row.scale)
    cell.travel.add(travel)


def run(rows, rounds, seconds):
    cells = {(row.key, mode.name): Cell() for row in rows for mode in row.modes}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for row in rows:
            # A different order each time, so that no mode always comes after the same one.
            for turn in range(row.turns):
                first = (number + turn) % len(row.modes)
                for mode in row.modes[first:] + row.modes[:first]:
                    measure(row, mode, max(seconds / row.turns, 0.2), cells[row.key, mode.name])
    return cells


def ratio_of(row, cells, mode):
    base, cell = cells[row.key, TCP.name], cells.get((row.key, mode.name))
    if not cell or not cell.samples or not base.samples:
        return None
    return row.gain(base.median(), cell.median())


def paired_text(row, cells):
    """Neighbours in time, compared pair by pair: the median, and where it lies with 95 % confidence."""
    base, cell = cells[row.key, TCP.name], cells[row.key, ONE_SIDE.name]
    if base.errors or cell.errors:
        return "**failed**"
    pairs = [(row.gain(a, b) - 1) * 100 for a, b in zip(base.samples, cell.samples)]
    chance = random.Random(1)  # the same samples give the same interval
    medians = sorted(statistics.median(chance.choices(pairs, k=len(pairs))) for _ in range(2000))
    return f"{statistics.median(pairs):+.1f} % ({medians[50]:+.1f} to {medians[-51]:+.1f})"


def ratio_text(row, cells, mode):
    if (row.key, mode.name) not in cells:
        return ""
    ratio = ratio_of(row, cells, mode)
    if ratio is None:
        return "**failed**"
    base, cell = cells[row.key, TCP.name].samples, cells[row.key, mode.name].samples
    apart = min(cell) > max(base) or max(cell) < min(base)
    if abs(ratio - 1) <= NOISE or not apart:
        return f"no gain, {ratio:.2f}×"
    return f"**{ratio:.2f}×**" if ratio > 1 else f"slower, {ratio:.2f}×"


def figure_text(cells, row, mode):
    cell = cells.get((row.key, mode.name))
    if not cell:
        return ""
    if not cell.samples:
        return "failed"
    return f"{cell.median():.3g} ±{cell.spread() * 50:.0f} %"


def travel_text(row, cells, mode):
    travel = cells[row.key, mode.name].travel
    warning = "**NOT ACCELERATED** " if row.earns and travel.verdict() != "direct" else ""
    return warning + travel.text()


def print_tables(rows, cells):
    faster = [row for row in rows if SPIN in row.modes]
    if faster:
        print("| what | spinning | sleeping | unix socket | how the streams travelled (spinning; sleeping) |")
        print("|---|---|---|---|---|")
    for row in faster:
        spin, sleep = (travel_text(row, cells, mode) for mode in (SPIN, SLEEP))
        print(f"| {row.title} | {ratio_text(row, cells, SPIN)} | {ratio_text(row, cells, SLEEP)} "
              f"| {ratio_text(row, cells, UNIX)} | {spin if spin == sleep else spin + '; ' + sleep} |")
    alone = [row for row in rows if ONE_SIDE in row.modes]
    if alone:
        print("\n| not accelerated | better (+) or worse (-) than no preload, 95 % interval "
              "| how the streams travelled |")
        print("|---|---|---|")
        for row in alone:
            print(f"| {row.title} | {paired_text(row, cells)} "
                  f"| {cells[row.key, ONE_SIDE.name].travel.text()} |")
    print("\nMedians behind the ratios, with half the distance from lowest to highest sample; only of use "
          "on this machine, in this hour:\n")
    print("| what | unit | TCP | spinning | sleeping | one side | unix socket |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        figures = " | ".join(figure_text(cells, row, m) for m in (TCP, SPIN, SLEEP, ONE_SIDE, UNIX))
        print(f"| {row.title} | {row.unit} | {figures} |")


def write_json(path, rows, cells, args):
    result = {"when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "machine": harness.machine(),
              "rounds": args.rounds, "seconds": args.seconds, "rows": []}
    for row in rows:
        modes = {}
        for mode in row.modes:
            cell = cells[row.key, mode.name]
            modes[mode.name] = {"samples": cell.samples, "errors": cell.errors,
                                "median": cell.median() if cell.samples else None,
                                "ratio": ratio_of(row, cells, mode),
                                "travel": {**vars(cell.travel), "verdict": cell.travel.verdict()}}
        result["rows"].append({"key": row.key, "title": row.title, "unit": row.unit,
                               "lower_is_better": row.lower_is_better, "modes": modes})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--quick", action="store_true", help="about three minutes: 3 rounds of 0.7 s")
    p.add_argument("--rounds", type=int, help="rounds (5)")
    p.add_argument("--seconds", type=float, help="length of one measurement (3)")
    p.add_argument("--only", help="comma-separated rows: " + ", ".join(row.key for row in ROWS))
    p.add_argument("--json", type=pathlib.Path, help="result file (build/bench/bench[-quick].json)")
    args = p.parse_args()
    args.rounds = args.rounds or (3 if args.quick else 5)
    args.seconds = args.seconds or (0.7 if args.quick else 3)
    args.json = args.json or harness.BUILD / "bench" / ("bench-quick.json" if args.quick else "bench.json")
    if args.rounds < 1 or not 0.1 <= args.seconds <= 600:
        p.error("at least one round, and 0.1 to 600 seconds")
    wanted = args.only.split(",") if args.only else [row.key for row in ROWS]
    unknown = set(wanted) - {row.key for row in ROWS}
    if unknown:
        p.error("no such row: " + ", ".join(sorted(unknown)))
    return args, [row for row in ROWS if row.key in wanted]


def main():
    args, rows = parse()
    harness.end_on_signals()
    harness.require(harness.RSPERF, "iperf3", "redis-server", "redis-benchmark", "nginx", "wrk")
    cells = run(rows, args.rounds, args.seconds)
    write_json(args.json, rows, cells, args)
    print_tables(rows, cells)
    print(f"\n{args.rounds} rounds of {args.seconds:g} s; all samples in {args.json}")
    return 1 if any(cell.errors for cell in cells.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
