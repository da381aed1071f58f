#!/usr/bin/env python3
"""make demo: runs iperf3, redis and nginx, unmodified, with and without librsock; takes about a
minute and prints one table.

Fails if a program failed, if content was wrong, or if no stream was direct.
"""
import hashlib
import random
import statistics
import sys
from dataclasses import dataclass
from typing import Callable

import rows_programs
import stages
from stages import SPIN, TCP, Failure, Stage, Travel

ROUNDS = 2
SECONDS = 3


def pattern(size):
    """A printable string that differs in every run."""
    return "".join(random.choices("0123456789abcdef", k=size))


def redis(stage, seconds):
    """Checks that a value survives being stored and read, then runs the benchmark, on one server.
    """
    result, travel = rows_programs.redis("get", 1, 40000)(stage, seconds)
    value = pattern(100_000)
    for n in range(3):
        stage.client("redis-cli", "-p", stage.port, "set", f"key{n}", value)
        said, _ = stage.client("redis-cli", "-p", stage.port, "get", f"key{n}")
        if said.strip() != value:
            raise Failure("redis: another value came back than was stored")
    return result, travel


def nginx(stage, seconds):
    result, travel = rows_programs.nginx(1)(stage, seconds)
    body = random.randbytes(8 << 20)
    (stage.dir / "big").write_bytes(body)
    stage.client("curl", "-sS", "-o", stage.dir / "got", f"http://127.0.0.1:{stage.port}/big")
    if hashlib.sha256((stage.dir / "got").read_bytes()).digest() != hashlib.sha256(body).digest():
        raise Failure("nginx: curl got other bytes than the file has")
    return result, travel


@dataclass(frozen=True)
class Program:
    name: str
    unit: str
    pick: str
    scale: float
    run: Callable


PROGRAMS = (
    Program("iperf3, 1 stream", "Gb/s", "bits_per_s", 1e-9, rows_programs.iperf3),
    Program("redis-benchmark GET, 1 client", "k requests/s", "rps", 1e-3, redis),
    Program("nginx 612 B keep-alive, wrk, 1 connection", "k requests/s", "per_s", 1e-3, nginx),
)


def show(program, samples, travel):
    tcp, ring = (statistics.median(samples[mode]) * program.scale for mode in (TCP, SPIN))
    print(f"{program.name:<42} {tcp:>9.1f} {ring:>10.1f} {ring / tcp:>6.2f}×  {program.unit:<13} "
          f"{travel.text()}")


def main():
    stages.end_on_signals()
    stages.require("iperf3", "redis-server", "redis-benchmark", "redis-cli", "nginx", "wrk",
                   "curl")
    print(f"{'program':<42} {'TCP':>9} {'preloaded':>10} {'ratio':>7}  {'':<13} how the streams "
          f"travelled")
    wrong = 0
    for program in PROGRAMS:
        samples, travel = {TCP: [], SPIN: []}, Travel()
        try:
            for mode in (TCP, SPIN) * ROUNDS:
                with Stage(mode) as stage:
                    result, went = program.run(stage, SECONDS)
                samples[mode].append(result[program.pick])
                if mode is SPIN:
                    travel.add(went)
        except Failure as e:
            print(f"{program.name:<42} FAILED: {e}")
            wrong += 1
            continue
        show(program, samples, travel)
        wrong += not travel.direct
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
