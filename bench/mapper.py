#!/usr/bin/env python3
"""Measures the port mapper's service.

Rows: transactions a second and core with a million live mappings, by the state machines alone and
by the daemon over UDP; memory of a mapping; a look-up; a connection with a mapping compared with a
plain one; and a fabric of hosts with one PMSP, on virtual time.

Each figure is the median of the rounds, with its spread. "A core" refers to the CPU time of the
daemon, which shares the machine with the load generator. Over UDP most hosts send one datagram at a
time; a busy one (a proxy, a central PM client) may send many in one buffer that the kernel segments
(UDP_SEGMENT). Both are reported. Beside each is what an echo serves that makes the same socket
calls and nothing else (pmecho), by the same load in turn.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

import mapper_connect
import stages
from mapper_lab import BIN, Daemon, Echo, cpu_s, free_udp_port, run
from stages import BUILD, Failure

LIVE = 1000000
SERVICE = 5201
# Kinds of load, with the options of pmload.
ASKERS = {
    "hosts": ("10,000 hosts, a datagram from each in turn", ("--hosts", 10000)),
    "client": ("one PM client", ()),
    "busy": ("one busy PM client, in segments", ("--segments",)),
}
# Target, and whether a higher value is better.
TARGETS = {
    "machine_per_s": ("transactions a second, the machines alone", 300000, True),
    **{f"{who}_per_core_s": (f"PMReq to PMAccept a second and core, rsockd over UDP: {title}",
                             300000, True)
       for who, (title, _) in ASKERS.items()},
    **{f"{who}_per_s": (f"the same, a second, beside its load: {title}", None, True)
       for who, (title, _) in ASKERS.items()},
    **{f"{who}_user_us": (f"microseconds in user mode a transaction: {title}", 2, False)
       for who, (title, _) in ASKERS.items()},
    # In segments the sockets cost next to nothing: there the machines are the limit.
    **{f"{who}_of_echo": (f"of what an echo with the same socket calls serves: {title}",
                          None if who == "busy" else 0.7, True)
       for who, (title, _) in ASKERS.items()},
    "one_at_a_time_us": ("microseconds from PMReq to PMAccept, one at a time", None, True),
    "machine_bytes": ("bytes a mapping, the PMSP alone", None, True),
    "live": ("mappings live", None, True),
    "lost": ("requests that were not answered", None, True),
    "mapping_bytes": ("bytes a mapping, rsockd in all", 256, False),
    "lookup_ns": ("nanoseconds a look-up in a PM client's memory", 1000, False),
}


def used(pid, work):
    """What the work returns, and the process's time in user mode and in the kernel meanwhile."""
    before = cpu_s(pid)
    done = work()
    return done, [b - a for a, b in zip(before, cpu_s(pid))]


def daemon_round(seconds):
    figures, echo = {"lost": 0}, Echo()
    with tempfile.TemporaryDirectory() as folder:
        port = free_udp_port()
        daemon = Daemon(folder, listen=[f"127.0.0.1:{port}"],
                        pmsp={"max-open": str(LIVE + 1000), "rate": "0"},
                        rnics=[{"name": "rnic0", "addresses": ["127.0.0.1"]}],
                        services=[{"name": "bench", "ports": [str(SERVICE)], "rdma-port": "18000",
                                   "pm-time": "254s"}],
                        rules=[{"name": "everything"}])

        def load(*options, at=port):
            """Runs pmload. Some datagrams of a batch may be lost; unanswered ones are counted."""
            done = run(BIN / "pmload", "--of", LIVE, *options, "127.0.0.1", at, SERVICE)
            figures["lost"] += done["lost"]
            return done
        try:
            before = daemon.bytes()
            figures["live"] = load("--requests", LIVE)["accepts"]
            figures["mapping_bytes"] = (daemon.bytes() - before) / max(1, figures["live"])
            requests = int(LIVE * min(1.0, seconds / 4))
            for who, (_, options) in ASKERS.items():
                done, cpu = used(daemon.popen.pid,
                                 lambda how=options: load("--requests", requests, *how))
                bound, echo_cpu = used(echo.popen.pid, lambda how=options:
                                       load("--requests", requests, *how, at=echo.port))
                figures[f"{who}_per_core_s"] = done["accepts"] / sum(cpu)
                figures[f"{who}_per_s"] = done["accepts"] / done["seconds"]
                figures[f"{who}_user_us"] = cpu[0] / done["accepts"] * 1e6
                figures[f"{who}_of_echo"] = (figures[f"{who}_per_core_s"] /
                                             (bound["accepts"] / sum(echo_cpu)))
            one = load("--requests", 20000, "--window", 1)
            figures["one_at_a_time_us"] = one["seconds"] / max(1, one["accepts"]) * 1e6
        finally:
            daemon.end()
            echo.end()
    return figures


def one_round(seconds):
    machine = run(BIN / "pmmachine", LIVE, seconds)
    figures = {"machine_per_s": machine["transactions_per_s"],
               "machine_bytes": machine["bytes_each"],
               "lookup_ns": machine["lookup_ns"], **daemon_round(seconds)}
    # CPU time for a datagram, from the measurement above: two for each transaction.
    service_ns = int(1e9 / figures["hosts_per_core_s"] / 2)
    figures["service_ns"] = service_ns
    figures["fabric"] = {}
    for rate in (1, 5, 10):
        for loss in (0, 1):
            figures["fabric"][f"{rate}/s, {loss} % "
                              f"lost"] = run(BIN / "pmhosts", 10000, rate, 3, 50, loss, service_ns)
    return figures


def spread(values):
    digits = 1 if statistics.median(values) >= 10 else 2
    return (f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to "
            f"{max(values):,.{digits}f})")


def tell(rounds):
    print("| figure | median (spread) | target |\n|---|---|---|")
    for key in ("machine_per_s", *(f"{who}_per_core_s" for who in ASKERS),
                *(f"{who}_{what}" for what in ("per_s", "user_us", "of_echo") for who in ASKERS),
                "one_at_a_time_us", "machine_bytes", "mapping_bytes", "lookup_ns", "live", "lost"):
        title, target, more = TARGETS[key]
        values = [figures[key] for figures in rounds]
        verdict = ""
        if target:
            met = (statistics.median(values) >= target if more
                   else statistics.median(values) <= target)
            verdict = (f"{'at least' if more else 'at most'} {target:,}: "
                       f"{'met' if met else 'not met'}")
        print(f"| {title} | {spread(values)} | {verdict} |")
    print(f"\n10,000 hosts, one PMSP on one core that takes {rounds[-1]['service_ns']} ns for a "
          f"datagram, 50 to 100 us away:\n")
    print("| connections a second and host | mapped | p50 us | p99 us | core busy | PMReq repeated "
          "| buffer overflowed |\n"
          "|---|---|---|---|---|---|---|")
    for name, f in rounds[-1]["fabric"].items():
        print(f"| {name} | {f['mapped']:,} of {f['requests']:,} | {f['p50_us']:.0f} | "
              f"{f['p99_us']:.0f} "
              f"| {f['busy'] * 100:.0f} % | {f['repeated']:,} | {f['overflowed']:,} |")


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=2)
    p.add_argument("--json", type=pathlib.Path, default=BUILD / "bench" / "mapper.json")
    args = p.parse_args()
    stages.end_on_signals()
    rounds, connect = [], None
    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
        rounds.append(one_round(args.seconds))
    try:
        connect = mapper_connect.measure(int(1000 * args.seconds))
    except Failure as why:
        print(f"\nconnections with a mapping were not measured: {why}", file=sys.stderr)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps({"rounds": rounds, "connect_us": connect}, indent=1))
    tell(rounds)
    if connect:
        mapper_connect.tell(connect)
    print(f"\nall samples in {args.json}")
    return 0 if connect else 1


if __name__ == "__main__":
    sys.exit(main())
