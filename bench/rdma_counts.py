#!/usr/bin/env python3
"""Counts what a message costs between two guests with RDMA devices, whatever the device: user
instructions, system calls, work requests, completions.

The client runs under callgrind: instructions and system calls are of its thread, once its stream is
direct; work requests are what the fabric itself has counted meanwhile (`rsock stat`), of the whole
process. A message of a round trip is both ways.
"""
import argparse
import json
import pathlib
import sys

import stages
from rdma_report import TITLES, table_lines
from rdma_stage import RSOCK, RSOCKET, Guests, Turn
from stages import Failure

from message_counts import COUNTS, RSPERF, count

# Name, test of rsperf, bytes, RSOCK_SPIN_US, transports.
RUNS = (("round trip of 64 B, asleep", "--lat", 64, "0", (RSOCKET, RSOCK)),
        ("round trip of 64 B, spinning", "--lat", 64, None, (RSOCK,)),
        ("round trip of 64 KiB, asleep", "--lat", 65536, "0", (RSOCKET, RSOCK)),
        ("sends of 64 KiB", "--bw", 65536, None, (RSOCKET, RSOCK)),
        ("sends of 1 MiB", "--bw", 1 << 20, None, (RSOCKET, RSOCK)))
COLUMNS = ("instructions", "system calls", *COUNTS)


def run(guests, mode, test, size, spin_us):
    with Turn(guests, mode) as turn:
        at = ("--wait", "recv", "--host", turn.host, "--port", turn.port)
        turn.server(RSPERF, "server", *at, ready="listening")
        env = turn.env()
        if mode is RSOCK and spin_us is not None:
            env["RSOCK_SPIN_US"] = spin_us
        return count(guests.asks, (test, "--size", size, *at), env, size, mode is RSOCK)


def shown(number):
    if number is None:
        return ""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def markdown(results):
    return ["For each message, by the client: instructions and system calls of its thread, the "
            "others of its process.", ""] + table_lines(
        ["what", "transport", *(what.replace("_", " ") for what in COLUMNS)],
        [[name, TITLES[mode], *(shown(per.get(what)) for what in COLUMNS)]
         for name, mode, per in results])


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default="", help="words of the runs' names")
    p.add_argument("--json", type=pathlib.Path,
                   default=stages.BUILD / "bench" / "rdma-counts.json", help="result file")
    args = p.parse_args()
    stages.end_on_signals()
    stages.require(stages.RSPERF, "qemu-system-x86_64", "valgrind")
    results = []
    try:
        with Guests() as guests:
            for name, test, size, spin_us, modes in RUNS:
                for mode in modes if args.only in name else ():
                    results.append((name, mode, run(guests, mode, test, size, spin_us)))
                    print(f"{name}, {mode.name}: {results[-1][2]['messages']} messages",
                          file=sys.stderr)
    except Failure as failure:
        sys.exit(f"the guests: {failure}")
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps([{"what": name, "transport": mode.name, **per}
                                     for name, mode, per in results], indent=1) + "\n")
    print("\n".join(markdown(results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
