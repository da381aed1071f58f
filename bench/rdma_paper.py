#!/usr/bin/env python3
"""The dynamic transfer's experiment over verbs: failed registrations and lost packets, dynamic
compared with traditional transfers.

bin/verbs_pair moves 128 KiB at a time between two guests (test/rdma), each time into a ring that it
has to request first, by every method in turn within one run. Registrations are made to fail alike
for each method; netem drops packets in both guests. Each round has every point once, in a rotating
order.
"""
import argparse
import contextlib
import json
import pathlib
import sys
import time
from dataclasses import dataclass

import stages
import paper_report
from rdma_stage import GUEST, bare_guests
from stages import Failure

PORT = 7400
# Rounds; transfers by each method, and most seconds, of a point in a round.
FULL, QUICK = (5, 800, 8.0), (2, 800, 3.0)
PERCENT = (1, 5, 10)
PINGS = (256, 512, 1024)  # bytes of the pings that run in parallel
PING_S = 0.02


@dataclass(frozen=True)
class Point:
    """fail, loss: percent; slot: payload in bytes; timer_ms: until a ring is requested again."""

    sweep: str
    fail: int = 0
    loss: int = 0
    slot: int = 1024
    timer_ms: int = paper_report.TIMER_MS
    beside: bool = False  # with pings in parallel
    quick: bool = True

    @property
    def times(self):
        """Factor for the time limit: losses cost time."""
        return 3 if self.loss >= 5 else 1

    @property
    def key(self):
        beside = "-pings" if self.beside else ""
        return f"{self.sweep}-f{self.fail}-l{self.loss}-s{self.slot}-t{self.timer_ms}{beside}"


POINTS = (
    Point("none"),
    *(Point("fail", fail=n, quick=n != 1) for n in PERCENT),
    *(Point("loss", loss=n, quick=n != 1) for n in PERCENT),
    *(Point("both", fail=n, loss=n) for n in PERCENT),
    *(Point("frames", fail=10, slot=n, beside=True, quick=n in PINGS) for n in (*PINGS, 16384)),
    *(Point("library", fail=n, timer_ms=200, quick=n == 10) for n in PERCENT),
)


@contextlib.contextmanager
def conditions(lab, point, lossy):
    """Sets the packet loss in both guests, and runs the parallel pings."""
    pings = []
    try:
        for guest in lab.guests:
            guest.netem(f"loss {point.loss}%" if point.loss else None, only=lossy)
        if point.beside:
            pings = [lab[1].start(["ping", "-q", "-i", PING_S, "-s", size, lab[2].ip])
                     for size in PINGS]
        yield
    finally:
        for ping in pings:
            ping.kill()
        for guest in lab.guests:
            guest.netem(None)


def run(lab, point, args, number):
    """One run of the two programs: (transfers, the client's final output, the server's)."""
    env = {"RSOCK_VERBS": f"{GUEST}/lib/librsock-verbs-mech.so"}
    b = lab[2]
    with conditions(lab, point, args.lossy):
        server = b.start([f"{GUEST}/bin/verbs_pair", "server", PORT], env=env)
        b.listening(PORT, handle=server)
        client = lab[1].start([f"{GUEST}/bin/verbs_pair", "client", b.ip, PORT, "mode=transfer",
                               f"largest={point.slot}",
                               f"rounds={args.transfers}",
                               f"seconds={max(1, round(args.seconds * point.times))}",
                               f"bytes={args.bytes}",
                               f"methods={args.methods}", f"timer_ms={point.timer_ms}",
                               f"fail={point.fail}", f"dice={number + 1}"], env=env)
        try:
            client.wait(args.seconds * point.times * 2 + 120, 0)
            server.wait(60, 0)
        finally:
            for program in (client, server):
                if program.running():
                    program.kill()
                    program.wait()
    lines = [json.loads(line) for line in client.out().splitlines()]
    return lines[:-1], lines[-1], json.loads(server.out().splitlines()[-1])


def cells_of(points, before):
    """{key: {"transfers": [[of a run], ...], ...}}, including what an earlier result has of them.
    """
    cells = {point.key: {"transfers": [], "errors": [], "registered_bytes": []} for point in points}
    for point in before.get("points", ()):
        if point["key"] in cells:
            cells[point["key"]] = {name: point[name] for name in cells[point["key"]]}
    return cells


def measure(lab, points, args, cells, had, begun):
    """Adds rounds to cells, which contain @had rounds already; returns the new number."""
    took = 0
    for number in range(had, had + args.rounds):
        started = time.monotonic()
        if number >= had + 2 and started + took > begun + args.minutes * 60:
            return number
        first = number % len(points)
        for point in points[first:] + points[:first]:
            try:
                transfers, *ends = run(lab, point, args, number)
            except (Failure, OSError, ValueError) as error:
                for guest in lab.guests:
                    guest.machine.check()
                print(f"{point.key}: {error}", file=sys.stderr)
                cells[point.key]["errors"].append(str(error))
                continue
            cells[point.key]["transfers"].append(transfers)
            cells[point.key]["registered_bytes"] = [
                end["registered_bytes"] - end["deregistered_bytes"] for end in ends]
        took = time.monotonic() - started
        print(f"round {number + 1} of {had + args.rounds}: {took:.0f} s", file=sys.stderr)
    return had + args.rounds


def parse():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--quick", action="store_true",
                   help="two rounds of fewer points, about three minutes")
    p.add_argument("--rounds", type=int, help=f"rounds ({FULL[0]})")
    p.add_argument("--transfers", type=int,
                   help=f"transfers by each method in a round, at most ({FULL[1]})")
    p.add_argument("--seconds", type=float,
                   help=f"of a point in a round, at most ({FULL[2]:g}; where 5 %% are lost, three "
                        f"times that)")
    p.add_argument("--minutes", type=float, default=25,
                   help="after two rounds none is begun that would end later (25)")
    p.add_argument("--bytes", type=int, default=128 << 10, help="of a transfer (128 KiB)")
    p.add_argument("--methods", default="tda",
                   help="t: traditional, d: dynamic, a: at once, indirectly (tda)")
    p.add_argument("--lossy", choices=("roce", "tcp"), help="what loses packets (all)")
    p.add_argument("--only", help="comma-separated beginnings of: "
                   + ", ".join(point.key for point in POINTS))
    p.add_argument("--add", action="store_true", help="rounds to those that the result file has")
    p.add_argument("--json", type=pathlib.Path,
                   help="result file (build/bench/rdma-paper[-quick].json); plots beside it")
    args = p.parse_args()
    rounds, transfers, seconds = QUICK if args.quick else FULL
    args.rounds, args.transfers = args.rounds or rounds, args.transfers or transfers
    args.seconds = args.seconds or seconds
    args.json = args.json or stages.BUILD / "bench" / ("rdma-paper-quick.json" if args.quick
                                                       else "rdma-paper.json")
    points = [point for point in POINTS if point.quick or not args.quick]
    if args.only:
        points = [point for point in POINTS if point.key.startswith(tuple(args.only.split(",")))]
    if not points or min(args.rounds, args.transfers, args.seconds,
                         args.bytes) <= 0 or not {"t", "d"} <= set(args.methods):
        p.error("nothing to measure")
    return args, points


def main():
    args, points = parse()
    stages.end_on_signals()
    stages.require(stages.BUILD / "bin" / "verbs_pair", "qemu-system-x86_64", "ping", "gnuplot")
    begun = time.monotonic()
    before = json.loads(args.json.read_text()) if args.add and args.json.exists() else {}
    cells = cells_of(points, before)
    try:
        with bare_guests() as lab:
            kernel = lab[2].run(["uname", "-r"], expect=0).out.strip()
            rounds = measure(lab, points, args, cells, before.get("rounds", 0), begun)
    except Failure as failure:
        sys.exit(f"the guests: {failure}")
    about = {"rounds": rounds, "seconds": args.seconds, "bytes": args.bytes,
             "methods": args.methods, "kernel": kernel,
             "lossy": args.lossy or "all", "minutes": (time.monotonic() - begun) / 60
             + before.get("minutes", 0)}
    result = paper_report.result(points, cells, about)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(result, indent=1) + "\n")
    print("\n".join(paper_report.markdown(result)))
    drawn = paper_report.draw(result, args.json.with_suffix(""))
    print(f"\nall transfers in {args.json}; plots: {', '.join(map(str, drawn))}")
    return 1 if any(cell["errors"] for cell in cells.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
