#!/usr/bin/env python3
"""make bench: compares kernel TCP with librsock, spinning and sleeping; prints medians, spread,
ratios and targets, and draws plots.

The modes are interleaved in rounds. The figures depend on the machine, so only the ratios within
one run count. Every accelerated row says which path its streams used: a row that stayed on TCP says
so.
"""
import argparse
import pathlib
import sys
import time

import plots
import report
import stages
from rows import RUNS
from stages import Failure, Stage
from table import Table

PROGRAMS = ("iperf3", "redis-server", "redis-benchmark", "nginx", "wrk", "memcached", "memcaslap",
            "gnuplot")

FULL, QUICK = (5, 1), (3, 0.35)  # rounds, and seconds of one measurement


def measure(run, mode, seconds, cell):
    errors = []
    try:
        with Stage(mode) as stage:
            result, travel = run.call(stage, seconds)
            for row in run.rows:
                row.figure(result)
    except Failure as e:
        errors.append(str(e))
    # A server that crashes when it is told to end has delivered its figure, but it counts as an
    # error.
    for error in errors + stage.crashes:
        print(f"{run.key} {mode.name}: {error}", file=sys.stderr)
        cell.errors.append(error)
    if errors:
        return
    # In the form that JSON gives back, for plots that are drawn again from a file.
    cell.results.append({str(key): value for key, value in result.items()})
    cell.travel.add(travel)


def measure_all(table, rounds, seconds):
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for run in table.runs:
            if run.rounds and number >= run.rounds:
                continue
            # The order rotates, so that no mode always follows the same one.
            for turn in range(run.turns):
                first = (number + turn) % len(run.modes)
                for mode in run.modes[first:] + run.modes[:first]:
                    measure(run, mode, run.turn_s(seconds), table.cell(run, mode))


def parse():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--quick", action="store_true",
                   help="about three minutes: fewer rows, shorter turns")
    p.add_argument("--rounds", type=int, help=f"rounds ({FULL[0]})")
    p.add_argument("--seconds", type=float, help=f"length of one measurement ({FULL[1]})")
    p.add_argument("--only", help="comma-separated: " + ", ".join(run.key for run in RUNS))
    p.add_argument("--list", action="store_true",
                   help="what there is, and about how long it takes; measures nothing")
    p.add_argument("--json", type=pathlib.Path,
                   help="result file (build/bench/bench[-quick].json); plots beside it")
    args = p.parse_args()
    rounds, seconds = QUICK if args.quick else FULL
    args.rounds, args.seconds = args.rounds or rounds, args.seconds or seconds
    args.json = args.json or stages.BUILD / "bench" / ("bench-quick.json" if args.quick
                                                       else "bench.json")
    if args.rounds < 1 or not 0.1 <= args.seconds <= 600:
        p.error("at least one round, and 0.1 to 600 seconds")
    wanted = (args.only.split(",") if args.only
              else [run.key for run in RUNS if run.quick or not args.quick])
    unknown = set(wanted) - {run.key for run in RUNS}
    if unknown:
        p.error("no such run: " + ", ".join(sorted(unknown)))
    return args, [run for run in RUNS if run.key in wanted]


def show_list(runs, args):
    for run in runs:
        print(f"{run.key:<15} {run.duration_s(args.rounds, args.seconds):5.0f} s  "
              + ("; ".join(f"{row.part} {row.title}" for row in run.rows) or f"by {run.axis}"
                 if run.axis or run.rows
                 else "what the hash costs"))
    print(f"about {sum(run.duration_s(args.rounds, args.seconds) for run in runs) / 60:.1f} "
          f"minutes")


def main():
    args, runs = parse()
    if args.list:
        show_list(runs, args)
        return 0
    stages.end_on_signals()
    stages.require(stages.RSPERF, stages.SLOTS, *PROGRAMS)
    begun = time.monotonic()
    table = Table(runs)
    measure_all(table, args.rounds, args.seconds)
    result = report.write_json(args.json, table, rounds=args.rounds, seconds=args.seconds,
                               left_out=[run.key for run in RUNS if run not in runs])
    print("\n".join(report.markdown(table)))
    drawn = plots.draw(result, args.json.parent)
    print(f"\n{args.rounds} rounds of {args.seconds:g} s, {(time.monotonic() - begun) / 60:.1f} "
          f"minutes; all samples "
          f"in {args.json}")
    if drawn:
        print("plots: " + ", ".join(str(path) for path in drawn))
    if len(runs) < len(RUNS):
        print("left out: " + ", ".join(run.key for run in RUNS if run not in runs))
    return 1 if any(cell.errors for cell in table.cells.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
