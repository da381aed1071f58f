#!/usr/bin/env python3
"""Measures how long a stream stalls when one of its two rails fails: between two guests with two
RDMA devices each.

One preloaded connection exchanges messages in turns. Repeatedly all RDMA packets of one of the two
networks are dropped, alternating between the two, with no notification other than timeouts; then
the network is restored, and both rails come back. The longest round trip of each such window is the
time to recover; it is reported beside that of windows without a failure.
"""
import argparse
import json
import math
import pathlib
import re
import statistics
import sys
import time

import stages
from rdma_report import table_lines
from rdma_stage import bare_guests, hosts
from stages import Failure

WINDOW_S, CYCLES, BEFORE_S = 3, 30, 0.5
BOOTS = 10  # new guests, since rxe refuses connections after some cycles
EARN_S, GONE_S, BACK_S = 60, 15, 90
DEVICE = re.compile(r"rxe\d/1")


def record(guest):
    """The record of the connection at one end; None: there is none."""
    streams = [stream for stream in guest.stat()["streams"] if stream["open"]]
    return streams[0] if len(streams) == 1 else None


def rails(guest):
    stream = record(guest)
    return (len(DEVICE.findall(stream.get("device", ""))) if stream
            and stream["tx"] == stream["rx"] == "ring" else 0)


def by_tcp(guests):
    return [(stream["tx_tcp_bytes"], stream["rx_tcp_bytes"]) for stream in map(record, guests)]


def wedged(guest):
    """True if rxe's queue pair for connecting is in an error state, from which no rail comes back
    (test/rdma/README.md)."""
    return any(pair.get("type") == "GSI" and pair.get("state") == "ERR"
               for pair in json.loads(guest.sh("rdma -j resource show qp")))


def deaf(lab, whether, link):
    for guest in lab.guests:
        guest.deaf(whether, "roce", f"eth{link}")


class Turns:
    """The connection, with its two programs."""

    def __init__(self, lab, port):
        self.lab = lab
        for guest in lab.guests:
            guest.write("/run/turns.py", (stages.ROOT / "bench" / "rdma" / "turns.py").read_text())
        self.server = lab[2].start(["python3", "/run/turns.py", "server", port], preload=True)
        lab[2].until(lambda: "listening" in self.server.out(), 60, "the server to listen")
        self.client = lab[1].start(["python3", "/run/turns.py", "client", lab[2].ip, port],
                                   preload=True, stdin="pipe", stdout="pipe")

    def window(self, meanwhile=None):
        """Longest round trip of a window, seconds."""
        self.client.send(f"{WINDOW_S}\n")
        if meanwhile:
            time.sleep(BEFORE_S)
            meanwhile()
        return json.loads(self.client.readline(WINDOW_S + 60))[1]

    def until_one(self):
        """Waits until one rail is left at each end. A rail with nothing under way is detected
        later, by the next probe, and stalls no stream."""
        end = time.monotonic() + GONE_S
        while (left := [rails(guest) for guest in self.lab.guests]) != [1, 1]:
            if time.monotonic() > end:
                raise Failure(f"rails are {left} after one died")
            time.sleep(0.2)

    def until_both(self, seconds):
        """Waits until both rails are back. False: rxe does not connect any more."""
        end = time.monotonic() + seconds
        while not all(rails(guest) == 2 for guest in self.lab.guests):
            if any(map(wedged, self.lab.guests)):
                return False
            if time.monotonic() > end:
                raise Failure(f"both rails were not there within {seconds} s: "
                              f"{[record(guest) for guest in self.lab.guests]}")
            self.window()
        return True


def measure(lab, cycles, port):
    """[(link, seconds)], [seconds of windows without a failure]; fewer cycles if a guest's rxe
    cannot connect any more."""
    turns = Turns(lab, port)
    lost, quiet = [], []
    if not turns.until_both(EARN_S):
        return lost, quiet
    for number in range(cycles):
        link = number % 2
        before = by_tcp(lab.guests)
        quiet.append(turns.window())
        lost.append((link, turns.window(lambda link=link: deaf(lab, True, link))))
        turns.until_one()
        if by_tcp(lab.guests) != before:
            raise Failure("bytes went by TCP")
        deaf(lab, False, link)
        if not turns.until_both(BACK_S):
            break
    return lost, quiet


def nearest_rank(values, share):
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def row(name, values):
    return [name, str(len(values)), *(f"{value * 1000:.0f}" for value in (
        statistics.median(values), nearest_rank(values,
                                                0.9), nearest_rank(values, 0.99), max(values)))]


def markdown(result):
    lost = result["lost"]
    rows = [row(name, values) for name, values in (
        ("the rail by the first network dies", [took for link, took in lost if link == 0]),
        ("the rail by the second one", [took for link, took in lost if link == 1]),
        ("either", [took for _link, took in lost]), ("nothing dies", result["quiet"])) if values]
    return [f"Longest round trip of 4 KiB in windows of {WINDOW_S} s, ms.", ""] + table_lines(
        ["", "windows", "median", "p90", "p99", "longest"], rows)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cycles", type=int, default=CYCLES, help=f"times that a rail dies ({CYCLES})")
    p.add_argument("--json", type=pathlib.Path,
                   default=stages.BUILD / "bench" / "rdma-failover.json", help="result file")
    args = p.parse_args()
    stages.end_on_signals()
    stages.require(stages.BUILD / "bin" / "rsock", "qemu-system-x86_64")
    result = {"when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
              "machine": stages.machine(), "lost": [], "quiet": [],
              "boots": 0}
    try:
        # Guests whose rxe cannot connect any more are booted again.
        while len(result["lost"]) < args.cycles and result["boots"] < BOOTS:
            with bare_guests(links=2) as lab:
                result["boots"] += 1
                for guest in lab.guests:
                    hosts.serve(guest)
                lost, quiet = measure(lab, args.cycles - len(result["lost"]), 7700)
                result["lost"] += lost
                result["quiet"] += quiet
                print(f"{len(result['lost'])} of {args.cycles}", file=sys.stderr)
    except Failure as failure:
        sys.exit(f"the guests: {failure}")
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(result, indent=1) + "\n")
    print("\n".join(markdown(result)))
    return 0 if len(result["lost"]) == args.cycles else 1


if __name__ == "__main__":
    sys.exit(main())
