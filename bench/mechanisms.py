#!/usr/bin/env python3
"""Measures mechanisms that have no counterpart elsewhere: locked access, the order of transactions,
mailboxes; and simulates the paper's model of the dynamic transfer (DRP) on virtual time.

Figures 4 (registrations that fail), 5 (frames that are lost) and 6 (both) of "Hardware Accelerated
Dynamic RDMA Method for Gigabit Ethernet", by both methods; then how Figure 6 changes with other
values of what the paper does not give (drp_sweep.py: Figures 5 and 7). Both methods meet the same
losses and failures; percentages are of means, with the 95 % interval of resampled pairs of
repetitions. All of these figures are modelled.
"""
import argparse
import dataclasses
import itertools
import json
import math
import multiprocessing
import pathlib
import statistics
import time

import drp
import mech_locked
import mech_mailbox
import mech_order
import paper_report
import plots
import stages
from drp import DYNAMIC, TRADITIONAL, Model
from rdma_report import table_lines

PAPER = {1: -1.9, 5: -4.9, 10: -8.8}
PERCENTS = range(11)
# Set by hand; --fit searches a grid around it, in which other values come as close.
FITTED = {"request_ns": 2_200_000, "again_ns": 100_000, "repeat_ns": 100_000, "register_ns": 20_000,
          "keeps": True, "duplicates": 3}
OTHERS = ({"request_ns": 500_000}, {"request_ns": 1_000_000}, {"request_ns": 4_000_000},
          {"again_ns": 20_000}, {"again_ns": 1_000_000},
          {"again_ns": 2_200_000}, {"repeat_ns": 50_000}, {"repeat_ns": 200_000},
          {"repeat_ns": 500_000}, {"register_ns": 0},
          {"register_ns": 200_000}, {"keeps": False}, {"duplicates": 1}, {"wire_ns": 5_000})
GRID = {"request_ns": (1_500_000, 2_000_000, 2_200_000, 2_500_000),
        "again_ns": (100_000, 1_000_000),
        "repeat_ns": (100_000, 200_000, 500_000), "keeps": (True, False), "duplicates": (1, 3)}
METHODS = {TRADITIONAL: ("#0072b2", 9), DYNAMIC: ("#d55e00", 11)}
FULL, QUICK = (800, 5), (100, 3)  # transfers, repetitions
FEWER = 4  # factor by which there are fewer transfers where another value is tried
MS = 1e-6


@dataclasses.dataclass(frozen=True)
class Point:
    figure: str  # "4", "5", "6", or the name of what was changed
    percent: int
    fails: float
    lost: float
    changed: tuple = ()  # (name, value) of fields of Model

    def model(self):
        return Model(fails=self.fails, lost=self.lost, **{**FITTED, **dict(self.changed)})


def points():
    for percent in PERCENTS:
        yield Point("4", percent, percent / 100, 0)
    for percent in PERCENTS:
        yield Point("5", percent, 0, percent / 100)
    for changed in ({}, *OTHERS):
        for percent in PAPER:
            yield Point("6", percent, percent / 100, percent / 100, tuple(changed.items()))


def means(point, count, seed):
    """Mean time in ns of count transfers by each of METHODS."""
    runs = [drp.both(point.model(), seed, number) for number in range(count)]
    return [statistics.mean(each.ns for each in run) for run in zip(*runs)]


def measure(work):
    point, count, repetitions = work
    pairs = [means(point, count, seed) for seed in range(1, repetitions + 1)]
    low, high = paper_report.interval(pairs)
    return {**dataclasses.asdict(point), "changed": dict(point.changed),
            "means_ns": dict(zip(METHODS, zip(*pairs))),
            "change": paper_report.change(pairs), "low": low, "high": high}


def distance(cells):
    """Distance of the three changes of Figure 6 from the paper's, in percentage points."""
    return math.dist([cell["change"] for cell in cells], PAPER.values())


def fit(pool, count):
    """Every combination of GRID as a line of text, the closest first."""
    tried = [dict(zip(GRID, values)) for values in itertools.product(*GRID.values())]
    cells = pool.map(measure, [(Point("6", percent, percent / 100, percent / 100,
                                      tuple(each.items())), count, 1)
                               for each in tried for percent in PAPER], chunksize=1)
    found = sorted((distance(three), name_of(each), three)
                   for each, three in zip(tried, zip(*[iter(cells)] * len(PAPER))))
    lines = [f"{off:5.2f}  " + " ".join(f"{cell['change']:+.1f} %" for cell in three) + f"  {name}"
             for off, name, three in found]
    return ["Figure 6, modelled: distance from the paper's, 1 %, 5 %, 10 %, parameters", *lines]


def name_of(changed):
    return ", ".join(f"{name} {value / 1000:g} µs" if name.endswith("_ns")
                     else f"{name} {value}".lower()
                     for name, value in changed.items()) or "as fitted"


def change_text(cell):
    return f"{cell['change']:+.1f} % ({cell['low']:+.1f} to {cell['high']:+.1f})"


def figure_lines(cells, figure, title):
    rows = [[str(cell["percent"]), *(f"{statistics.mean(cell['means_ns'][method]) * MS:.3f}"
                                     for method in METHODS), change_text(cell)]
            for cell in cells if cell["figure"] == figure and not cell["changed"]]
    return [f"Figure {figure}, modelled: {title}", "",
            *table_lines([title + ", %", *(f"{method}, ms" for method in METHODS), "change"], rows),
            ""]


def markdown(cells):
    lines = figure_lines(cells, "4",
                         "registrations that fail") + figure_lines(cells, "5", "frames that are "
                                                                               "lost")
    rows = {}
    for cell in cells:
        if cell["figure"] == "6":
            rows.setdefault(name_of(cell["changed"]), {})[cell["percent"]] = change_text(cell)
    heads = ["Figure 6, modelled: both", *(f"{percent} %" for percent in PAPER)]
    body = [["the paper", *(f"{value:+.1f} %" for value in PAPER.values())]]
    body += [[name, *(row[percent] for percent in PAPER)] for name, row in rows.items()]
    return lines + table_lines(heads, body)


def script(cells, figure, xlabel):
    """A gnuplot script: means of the repetitions, with bars from lowest to highest."""
    lines = ["set encoding utf8",
             f'set title "Figure {figure}, modelled: 128 KiB in frames of 1,024 bytes"',
             f'set xlabel "{xlabel}, %"',
             'set ylabel "ms of a transfer"', "set grid", "set key left top", "set yrange [0:]",
             "set xrange [-0.5:10.5]"]
    drawn = []
    for method, (colour, mark) in METHODS.items():
        rows = [(cell["percent"], [ns * MS for ns in cell["means_ns"][method]]) for cell in cells
                if cell["figure"] == figure and not cell["changed"]]
        lines += [f"${method} << END"] + [f"{at} {statistics.mean(of):.9g} {min(of):.9g} "
                                          f"{max(of):.9g}" for at, of in rows] + ["END"]
        drawn.append(f'${method} with yerrorlines linewidth 2 linecolor "{colour}" pointtype '
                     f'{mark} pointsize 0.7 title "{method}"')
    return "\n".join(lines + ["plot " + ", ".join(drawn)]) + "\n"


def draw(cells, stem):
    drawn = []
    for figure, xlabel in (("4", "registrations that fail"), ("5", "frames that are lost"),
                           ("6", "both")):
        drawn += plots.gnuplot(script(cells, figure, xlabel),
                               stem.with_name(f"{stem.name}-figure-{figure}"))
    return [path for path in drawn if path.suffix == ".svg"]


def others(quick):
    """Measures the other mechanisms on this machine, one after the other: their rows for the result
    file, and their tables."""
    locked = mech_locked.rows(stages.BUILD, quick)
    order = mech_order.measure(mech_order.QUICK_SECONDS if quick else mech_order.SECONDS)
    mailbox = mech_mailbox.measure(*(mech_mailbox.QUICK if quick else mech_mailbox.FULL))
    found = {"locked": locked, "order": [dataclasses.asdict(row) for row in order],
             "mailbox": mailbox}
    lines = ["Locked access", "", *mech_locked.markdown(locked), "",
             "The order of transactions, beside the ring's slots", "",
             *mech_order.markdown(order), "",
             "Mailboxes, obtained by get from an owner that never rests", "",
             *mech_mailbox.markdown(mailbox), ""]
    return found, lines


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--quick", action="store_true",
                   help=f"{QUICK[0]} transfers, {QUICK[1]} times, in place of {FULL[0]}, {FULL[1]} "
                        f"times")
    p.add_argument("--fit", action="store_true",
                   help="what the paper does not say, tried against its Figure 6")
    p.add_argument("--json", type=pathlib.Path,
                   help="result file (build/bench/mechanisms.json); plots beside it")
    args = p.parse_args()
    count, repetitions = QUICK if args.quick else FULL
    if args.fit:
        with multiprocessing.Pool() as pool:
            print("\n".join(fit(pool, count)))
        return
    args.json = args.json or stages.BUILD / "bench" / "mechanisms.json"
    args.json.parent.mkdir(parents=True, exist_ok=True)
    stages.require("gnuplot")
    found, lines = others(args.quick)
    print("\n".join(lines))
    begun = time.monotonic()
    with multiprocessing.Pool() as pool:
        cells = pool.map(measure, [(point, count // (FEWER if point.changed else 1), repetitions)
                                   for point in points()], chunksize=1)
    args.json.write_text(json.dumps({"transfers": count, "repetitions": repetitions,
                                     "fitted": FITTED, "paper": PAPER, "points": cells, **found},
                                    indent=1) + "\n")
    print("\n".join(markdown(cells)))
    print(f"\n{count} transfers, {repetitions} times, each point and method ({count // FEWER} of "
          f"other values), in {(time.monotonic() - begun) / 60:.1f} minutes; all in {args.json}")
    print("plots: " + ", ".join(str(path) for path in draw(cells, args.json.with_suffix(""))))


if __name__ == "__main__":
    main()
