#!/usr/bin/env python3
"""Compares transports between two hosts with RDMA devices: kernel TCP, rsocket, SMC-R and rsock,
and bare verbs as the device's limit.

The hosts are two QEMU guests with Soft-RoCE (test/rdma), one pair for all. Each round runs every
transport once in every row, in a rotating order. A row whose bytes did not go by RDMA, by the
kernels' own counters, is marked as not accelerated. A program that a transport cannot run is tried
once in a run, and the row reports the result.
"""
import argparse
import dataclasses
import pathlib
import sys
import time

import rdma_report
import stages
from rdma_rows import RUNS
from rdma_stage import RSOCK, RSOCKET, SMC_R, Guests, Turn, accelerated
from stages import LIMIT, TCP, Failure
from table import Table

PROGRAMS = ("qemu-system-x86_64", "ib_write_lat", "ib_send_lat", "ib_write_bw", "iperf3",
            "redis-server", "redis-benchmark",
            "gnuplot")
FULL, QUICK = (4, 1.5, 9.5), (2, 0.7, 2.8)  # rounds, seconds of a measurement, minutes in total
TRIED_ONCE = (RSOCKET, SMC_R)  # after a failure they are not tried again: it would fail again
MUST = (TCP, RSOCK, LIMIT)  # without these there is no comparison


def measure(guests, run, mode, seconds, cell, number):
    try:
        with Turn(guests, mode) as turn:
            result = run.call(turn, seconds)
            for row in run.rows:
                row.figure(result)
    except (Failure, OSError) as error:
        for guest in guests.lab.guests:
            guest.machine.check()  # raises if the guest has died, which ends the run
        print(f"{run.key} {mode.name}: {error}", file=sys.stderr)
        cell.errors.append(str(error))
        return
    cell.results.append({**result, "round": number, "witness": dataclasses.asdict(turn.witness),
                         "accelerated": accelerated(mode, turn.witness, turn.travel)})
    cell.travel.add(turn.travel)


def measure_round(guests, table, number, seconds):
    for run in table.runs:
        first = number % len(run.modes)
        for mode in run.modes[first:] + run.modes[:first]:
            cell = table.cell(run, mode)
            if mode not in TRIED_ONCE or not rdma_report.failed(table, run, mode):
                measure(guests, run, mode, seconds, cell, number)


def measure_all(guests, table, args, begun):
    """Returns the number of rounds done: as many as asked for if the time suffices, and at least
    two."""
    took = 0
    for number in range(args.rounds):
        started = time.monotonic()
        if number >= 2 and started + took > begun + args.minutes * 60:
            return number
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
        measure_round(guests, table, number, args.seconds)
        took = time.monotonic() - started
    return args.rounds


def parse():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--quick", action="store_true",
                   help="some five minutes: fewer rows, shorter turns")
    p.add_argument("--rounds", type=int, help=f"rounds ({FULL[0]})")
    p.add_argument("--seconds", type=float, help=f"length of one measurement ({FULL[1]})")
    p.add_argument("--minutes", type=float,
                   help=f"after two rounds none is begun that would end later ({FULL[2]})")
    p.add_argument("--only", help="comma-separated: " + ", ".join(run.key for run in RUNS))
    p.add_argument("--json", type=pathlib.Path,
                   help="result file (build/bench/rdma[-quick].json); the plot beside it")
    args = p.parse_args()
    rounds, seconds, minutes = QUICK if args.quick else FULL
    args.rounds, args.seconds = args.rounds or rounds, args.seconds or seconds
    args.minutes = args.minutes or minutes
    args.json = args.json or stages.BUILD / "bench" / ("rdma-quick.json" if args.quick
                                                       else "rdma.json")
    if args.rounds < 1 or not 0.1 <= args.seconds <= 60:
        p.error("at least one round, and 0.1 to 60 seconds")
    wanted = (args.only.split(",") if args.only
              else [run.key for run in RUNS if run.quick or not args.quick])
    unknown = set(wanted) - {run.key for run in RUNS}
    if unknown:
        p.error("no such run: " + ", ".join(sorted(unknown)))
    return args, [run for run in RUNS if run.key in wanted]


def main():
    args, runs = parse()
    stages.end_on_signals()
    stages.require(stages.RSPERF, stages.BUILD / "bin" / "smcnet",
                   stages.BUILD / "bin" / "rsockd", *PROGRAMS)
    begun, table = time.monotonic(), Table(runs)
    try:
        with Guests() as guests:
            kernel = guests.kernel()
            print(f"guests are up after {time.monotonic() - begun:.0f} s", file=sys.stderr)
            rounds = measure_all(guests, table, args, begun)
    except Failure as failure:
        sys.exit(f"the guests: {failure}")
    result = rdma_report.write_json(args.json, table,
                                    guests={"kernel": kernel, "count": 2, "cpus": 1,
                                            "emulated": True},
                                    rounds=rounds, seconds=args.seconds,
                                    left_out=[run.key for run in RUNS if run not in runs])
    print("\n".join(rdma_report.markdown(table)))
    drawn = rdma_report.draw(result, args.json.with_suffix(""))
    print(f"\n{rounds} rounds of {args.seconds:g} s, kernel {kernel} in the guests, "
          f"{(time.monotonic() - begun) / 60:.1f} "
          f"minutes; all samples in {args.json}")
    if drawn:
        print("plot: " + ", ".join(str(path) for path in drawn))
    if len(runs) < len(RUNS):
        print("left out: " + ", ".join(run.key for run in RUNS if run not in runs))
    return (1 if any(table.cell(run, mode).errors for run in runs for mode in MUST
                     if mode in run.modes) else 0)


if __name__ == "__main__":
    sys.exit(main())
