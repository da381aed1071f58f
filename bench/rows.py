"""What is compared: each row starts a server and a client on a stage, and returns one figure."""
import csv
import io
import json
import os
import re
import urllib.request
from dataclasses import dataclass
from typing import Callable

from harness import ONE_SIDE, RSPERF, SLEEP, SPIN, TCP, UNIX, Failure

PAGE = b"<!doctype html><title>612 bytes</title>" + b"." * 573
assert len(PAGE) == 612


@dataclass(frozen=True)
class Row:
    key: str
    title: str
    unit: str
    run: Callable  # (stage, seconds) -> (figure, Travel)
    modes: tuple
    scale: float = 1.0  # figure to unit
    lower_is_better: bool = False
    earns: bool = True  # expected to be accelerated
    turns: int = 1  # short turns in a round, one mode after the other, compared pair by pair

    def gain(self, base, figure):
        return base / figure if self.lower_is_better else figure / base


def rsperf(test, wait="recv", pick=None, pinned=False):
    """pinned: a cpu for each end, where what is looked for is smaller than what the scheduler's choice makes."""
    def run(stage, seconds):
        where = ["--unix", stage.unix] if stage.mode.unix else ["--port", stage.port]
        cpus = sorted(os.sched_getaffinity(0))
        pins = [["--pin", cpu] if pinned and len(cpus) > 1 else [] for cpu in (cpus[0], cpus[-1])]
        stage.server(RSPERF, "server", "--wait", wait, *pins[0], *where)
        said, travel = stage.client(RSPERF, "client", *test, "--wait", wait, "--time", seconds, "--json",
                                    *pins[1], *where, timeout_s=seconds + 20)
        return pick(json.loads(said.splitlines()[-1])), travel
    return run


def p50(result):
    return result["rtt_ns"]["p50"]


def gbit(result):
    return result["out"]["gbit_per_s"]


def iperf3(stage, seconds):
    stage.server("iperf3", "--server", "--one-off", "--port", stage.port)
    said, travel = stage.client("iperf3", "--client", "127.0.0.1", "--port", stage.port, "--json",
                                "--time", max(1, round(seconds)), timeout_s=seconds + 20)
    result = json.loads(said)
    if "error" in result or result["end"]["sum_received"]["bytes"] <= 0:
        raise Failure(f"iperf3: {result.get('error', 'nothing was received')}")
    return result["end"]["sum_received"]["bits_per_second"], travel


def redis_server(stage):
    where = ["--unixsocket", stage.unix, "--port", 0] if stage.mode.unix else ["--port", stage.port]
    stage.server("redis-server", "--save", "", "--appendonly", "no", "--bind", "127.0.0.1",
                 "--dir", stage.dir, *where)


def redis_address(stage):
    return ["-s", stage.unix] if stage.mode.unix else ["-p", stage.port]


def redis(command, clients, requests_per_s):
    """By count, since redis-benchmark knows no time; sized after kernel TCP."""
    def run(stage, seconds):
        redis_server(stage)
        said, travel = stage.client("redis-benchmark", *redis_address(stage), "-t", command, "-c", clients,
                                    "-n", int(requests_per_s * seconds), "--csv", timeout_s=seconds * 10 + 20)
        # Beside the table redis-benchmark may warn about the server's configuration.
        lines = [line for line in said.splitlines() if line.startswith('"')]
        table = list(csv.DictReader(io.StringIO("\n".join(lines))))
        if not table:
            raise Failure(f"redis-benchmark: no figure in: {said[-400:]}")
        return float(table[0]["rps"]), travel
    return run


def nginx_server(stage, workers=1):
    """Its own prefix and configuration; the same user as the client, since others stay on TCP."""
    (stage.dir / "page").write_bytes(PAGE)
    user = "user root;" if os.geteuid() == 0 else ""
    temp = " ".join(f"{kind}_temp_path {stage.dir}/{kind};"
                    for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (stage.dir / "nginx.conf").write_text(f"""
{user} worker_processes {workers}; daemon off; pid {stage.dir}/nginx.pid; error_log {stage.dir}/error.log;
events {{ worker_connections 1024; }}
http {{ {temp} access_log off; keepalive_requests 100000000; sendfile on;
server {{ listen 127.0.0.1:{stage.port}; root {stage.dir}; }} }}
""")
    stage.server("nginx", "-p", stage.dir, "-c", stage.dir / "nginx.conf", "-e", stage.dir / "error.log")


def nginx(connections):
    def run(stage, seconds):
        nginx_server(stage)
        with urllib.request.urlopen(f"http://127.0.0.1:{stage.port}/page", timeout=10) as answer:
            if answer.read() != PAGE:
                raise Failure("nginx: wrong content")
        said, travel = stage.client("wrk", "-t", 1, "-c", connections, "-d", f"{max(1, round(seconds))}s",
                                    f"http://127.0.0.1:{stage.port}/page", timeout_s=seconds + 20)
        rate = re.search(r"Requests/sec:\s*([\d.]+)", said)
        if not rate or "Socket errors" in said or "Non-2xx" in said or not float(rate[1]):
            raise Failure(f"wrk: {said[-400:]}")
        return float(rate[1]), travel
    return run


BOTH = (TCP, SPIN, SLEEP)
US, GBIT, KILO, MEGA = 1e-3, 1e-9, 1e-3, 1e-6

ROWS = (
    Row("lat_recv", "64 B ping-pong, recv, p50", "µs", rsperf(["--lat"], pick=p50), BOTH + (UNIX,), US, True),
    Row("lat_epoll", "64 B ping-pong, epoll, p50", "µs", rsperf(["--lat"], "epoll", p50), BOTH + (UNIX,), US,
        True),
    Row("bw", "128 KiB sends", "Gb/s", rsperf(["--bw"], pick=gbit), BOTH + (UNIX,)),
    Row("rate", "64 B messages, one way", "M/s",
        rsperf(["--rate"], pick=lambda r: r["out"]["messages_per_s"]), BOTH + (UNIX,), MEGA),
    Row("iperf3", "iperf3, 1 stream", "Gb/s", iperf3, BOTH, GBIT),
    Row("redis_get_1", "redis GET, 1 client", "k/s", redis("get", 1, 30000), BOTH + (UNIX,), KILO),
    Row("redis_set_1", "redis SET, 1 client", "k/s", redis("set", 1, 30000), BOTH + (UNIX,), KILO),
    Row("redis_get_50", "redis GET, 50 clients", "k/s", redis("get", 50, 80000), BOTH + (UNIX,), KILO),
    Row("redis_set_50", "redis SET, 50 clients", "k/s", redis("set", 50, 80000), BOTH + (UNIX,), KILO),
    Row("nginx_1", "nginx 612 B keep-alive, 1 connection", "k/s", nginx(1), BOTH, KILO),
    Row("nginx_64", "nginx 612 B keep-alive, 64 connections", "k/s", nginx(64), BOTH, KILO),
    Row("conn", "connect, 64 B, reply, close", "k/s",
        rsperf(["--conn"], "epoll", lambda r: r["per_s"]), BOTH, KILO, earns=False),
    Row("alone_lat", "64 B ping-pong, only the client preloaded", "µs",
        rsperf(["--lat", "--warmup", 0.05], pick=p50, pinned=True), (TCP, ONE_SIDE), US, True, False, 10),
    Row("alone_bw", "128 KiB sends, only the client preloaded", "Gb/s",
        rsperf(["--bw", "--warmup", 0.05], pick=gbit, pinned=True), (TCP, ONE_SIDE), earns=False, turns=10),
)
