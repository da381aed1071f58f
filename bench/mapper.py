#!/usr/bin/env python3
"""The port mapper's service: transactions by second and core with a million mappings live, by the machines alone and by
the daemon over UDP; memory of a mapping; a look-up; and a fabric of hosts with one PMSP, on virtual time.

Each figure is the median of the rounds, with its spread. By core: by the processor time of the daemon, which shares the
machine with its load.
"""
import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import harness
from harness import BUILD, Failure

BIN = BUILD / "bin"
LIVE = 1000000
SERVICE = 5201
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
# Target, and whether more is better.
TARGETS = {
    "machine_per_s": ("transactions a second, the machines alone", 300000, True),
    "daemon_per_core_s": ("PMReq to PMAccept a second and core, rsockd over UDP", 300000, True),
    "mapping_bytes": ("bytes a mapping, rsockd in all", 256, False),
    "lookup_ns": ("nanoseconds a look-up in a PM client's memory", 1000, False),
}


def run(*argv):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"{argv[0]}: {done.stderr.strip()}")
    return json.loads(done.stdout)


class Daemon:
    def __init__(self, folder):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        config = folder / "rsockd.conf"
        config.write_text(json.dumps({
            "listen": [f"127.0.0.1:{self.port}"], "control": str(folder / "control.sock"),
            "pmsp": {"max-open": str(LIVE + 1000), "rate": "0"},
            "rnics": [{"name": "rnic0", "addresses": ["127.0.0.1"]}],
            "services": [{"name": "bench", "ports": [str(SERVICE)], "rdma-port": "18000", "pm-time": "254s"}],
            "rules": [{"name": "everything"}]}))
        self.popen = subprocess.Popen([BIN / "rsockd", "-c", config])
        deadline = time.monotonic() + 10
        while not (folder / "control.sock").exists():
            if self.popen.poll() is not None or time.monotonic() > deadline:
                raise Failure("rsockd did not start")
            time.sleep(0.01)

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.popen.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def bytes(self):
        return int(pathlib.Path(f"/proc/{self.popen.pid}/statm").read_text().split()[1]) * PAGE

    def load(self, *options):
        """Some datagrams of a batch may be lost: what was not answered is told."""
        return run(BIN / "pmload", *options, "127.0.0.1", self.port, SERVICE)

    def end(self):
        self.popen.terminate()
        self.popen.wait(10)


def daemon_round(seconds):
    with tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(pathlib.Path(folder))
        try:
            before = daemon.bytes()
            filled = daemon.load("--requests", LIVE)
            each = (daemon.bytes() - before) / max(1, filled["accepts"])
            requests = int(LIVE * min(1.0, seconds / 4))
            cpu, load = daemon.cpu_s(), daemon.load("--requests", requests)
            cpu = daemon.cpu_s() - cpu
            one = daemon.load("--requests", 20000, "--window", 1, "--first", LIVE // 2)
        finally:
            daemon.end()
    return {"daemon_per_core_s": load["accepts"] / cpu, "daemon_per_s": load["accepts"] / load["seconds"],
            "mapping_bytes": each, "live": filled["accepts"], "lost": filled["lost"] + load["lost"],
            "one_at_a_time_us": one["seconds"] / max(1, one["accepts"]) * 1e6}


def one_round(seconds):
    machine = run(BIN / "pmmachine", LIVE, seconds)
    figures = {"machine_per_s": machine["transactions_per_s"], "machine_bytes": machine["bytes_each"],
               "lookup_ns": machine["lookup_ns"], **daemon_round(seconds)}
    # A datagram's share of the processor, as it was just measured: two for each transaction.
    service_ns = int(1e9 / figures["daemon_per_core_s"] / 2)
    figures["service_ns"] = service_ns
    figures["fabric"] = {}
    for rate in (1, 5, 10):
        for loss in (0, 1):
            figures["fabric"][f"{rate}/s, {loss} % lost"] = run(BIN / "pmhosts", 10000, rate, 3, 50, loss, service_ns)
    return figures


def spread(values):
    return f"{statistics.median(values):,.1f} ({min(values):,.1f} to {max(values):,.1f})"


def tell(rounds):
    print("| figure | median (spread) | target |\n|---|---|---|")
    for key in ("machine_per_s", "daemon_per_core_s", "daemon_per_s", "one_at_a_time_us", "machine_bytes",
                "mapping_bytes", "lookup_ns", "live", "lost"):
        title, target, more = TARGETS.get(key, (key, None, True))
        values = [figures[key] for figures in rounds]
        verdict = ""
        if target:
            met = statistics.median(values) >= target if more else statistics.median(values) <= target
            verdict = f"{'at least' if more else 'at most'} {target:,}: {'met' if met else 'not met'}"
        print(f"| {title} | {spread(values)} | {verdict} |")
    print(f"\n10,000 hosts, one PMSP on one core that takes {rounds[-1]['service_ns']} ns for a datagram, 50 to 100 us away:\n")
    print("| connections a second and host | mapped | p50 us | p99 us | core busy | PMReq repeated | buffer overflowed |\n"
          "|---|---|---|---|---|---|---|")
    for name, f in rounds[-1]["fabric"].items():
        print(f"| {name} | {f['mapped']:,} of {f['requests']:,} | {f['p50_us']:.0f} | {f['p99_us']:.0f} "
              f"| {f['busy'] * 100:.0f} % | {f['repeated']:,} | {f['overflowed']:,} |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=2)
    p.add_argument("--json", type=pathlib.Path, default=BUILD / "bench" / "mapper.json")
    args = p.parse_args()
    harness.end_on_signals()
    rounds = []
    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
        rounds.append(one_round(args.seconds))
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps({"rounds": rounds}, indent=1))
    tell(rounds)
    print(f"\nall samples in {args.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
