#!/usr/bin/env python3
"""make bench-promotion: how many bytes a stream of redis has carried by TCP when it is on the ring.

One client asks one server, on one host and in two containers, where rsockd has to run in between;
with idle processors, and with a busy loop beside each. Prints the median, the least and the most of
some runs. As root.
"""
import argparse
import contextlib
import os
import statistics
import subprocess
import sys

import stages
from rows_containers import containers
from rows_programs import redis
from stages import SPIN, Failure, Stage, dies_with_parent

ROUNDS = 7
REQUESTS_PER_S = 20000
SECONDS = 0.5


@contextlib.contextmanager
def busy(loops):
    running = [subprocess.Popen(["sh", "-c", "while :; do :; done"],
                                preexec_fn=dies_with_parent()) for _ in range(loops)]
    try:
        yield
    finally:
        for loop in running:
            loop.kill()
            loop.wait()


def by_tcp(apart, loops):
    """Bytes of one stream, both ways; None: it was never on the ring."""
    with Stage(SPIN) as stage, contextlib.ExitStack() as around:
        if apart:
            around.enter_context(containers(stage))
        around.enter_context(busy(loops))
        travel = redis("get", 1, REQUESTS_PER_S)(stage, SECONDS)[1]
    # The benchmark's first connection asks for the server's settings, and ends.
    return travel.tcp_bytes if travel.direct else None


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"runs of each ({ROUNDS})")
    rounds = parser.parse_args().rounds
    stages.end_on_signals()
    stages.require("redis-server", "redis-benchmark")
    cases = [(apart, loops) for loops in (0, os.cpu_count()) for apart in (False, True)]
    found = {case: [] for case in cases}
    try:
        for _ in range(rounds):
            for case in cases:
                found[case].append(by_tcp(*case))
    except Failure as failure:
        sys.exit(f"bench-promotion: {failure}")
    print("| redis GET, 1 client | busy loops | bytes by TCP, median | least | most | "
          "never on the ring |\n|---|---|---|---|---|---|")
    for (apart, loops), values in found.items():
        carried = [value for value in values if value is not None]
        told = (f"{statistics.median(carried):.0f} | {min(carried)} | {max(carried)}" if carried
                else "- | - | -")
        print(f"| {'two containers' if apart else 'one host'} | {loops} | {told} | "
              f"{len(values) - len(carried)} of {len(values)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
