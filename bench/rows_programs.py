"""Rows of unmodified programs as the distribution ships them: iperf3, redis, nginx, memcached, each
with its own load generator."""
import csv
import io
import json
import os
import re

from stages import LIMIT, SLEEP, SPIN, TCP, UNIX, Failure, Travel
from table import Row, Run, faster, near_limit

PAGE = b"<!doctype html><title>612 bytes</title>" + b"." * 573
assert len(PAGE) == 612
FILE_BYTES = 1 << 20
COLD_FILES = 96
OF_OWN_TIME = 0.85
BOTH = (TCP, SPIN, SLEEP)
KILO, GBIT = 1e-3, 1e-9
TIMES_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


def whole(seconds):
    """Whole seconds, for programs that accept no fractions."""
    return max(1, round(seconds))


def iperf3(stage, seconds):
    stage.server("iperf3", "--server", "--one-off", "--port", stage.port)
    said, travel = stage.client("iperf3", "--client", stage.address, "--port", stage.port, "--json",
                                "--time", whole(seconds), timeout_s=seconds + 20)
    result = json.loads(said)
    if "error" in result or result["end"]["sum_received"]["bytes"] <= 0:
        raise Failure(f"iperf3: {result.get('error', 'nothing was received')}")
    return {"bits_per_s": result["end"]["sum_received"]["bits_per_second"]}, travel


def redis_server(stage):
    where = ["--unixsocket", stage.unix, "--port", 0] if stage.mode.unix else ["--port", stage.port]
    stage.server("redis-server", "--save", "", "--appendonly", "no", "--bind", stage.address,
                 "--protected-mode", "no",
                 "--dir", stage.dir, *where)


def redis_address(stage):
    return ["-s", stage.unix] if stage.mode.unix else ["-h", stage.address, "-p", stage.port]


def redis_figures(said):
    """Parses redis-benchmark --csv, whose output may also contain warnings about the server's
    configuration."""
    lines = [line for line in said.splitlines() if line.startswith('"')]
    table = list(csv.DictReader(io.StringIO("\n".join(lines))))
    if not table or not float(table[0]["rps"]):
        raise Failure(f"redis-benchmark: no figure in: {said[-400:]}")
    return {name: float(value) for name, value in table[0].items() if name != "test"}


def redis(command, clients, requests_per_s, pipeline=1):
    """Runs a number of requests, since redis-benchmark has no time limit; sized by kernel TCP's
    rate. The limit: kernel TCP, of which only the programs' own time remains (Amdahl): that of the
    one that computes longer, in user mode, since they run at the same time."""
    def run(stage, seconds):
        redis_server(stage)
        said, travel = stage.client("redis-benchmark", *redis_address(stage), "-t", command, "-c",
                                    clients,
                                    "-P", pipeline, "-n", int(requests_per_s * seconds), "--csv",
                                    timeout_s=seconds * 10 + 20)
        figures = redis_figures(said)
        if stage.mode is LIMIT:
            return {"rps": int(requests_per_s * seconds) / stage.own_s()}, Travel(known=True)
        return figures, travel
    return run


def nginx_server(stage, workers=1):
    """nginx with its own prefix and configuration, as the same user as the client, since streams
    between users stay on TCP."""
    (stage.dir / "page").write_bytes(PAGE)
    user = "user root;" if os.geteuid() == 0 else ""
    temp = " ".join(f"{kind}_temp_path {stage.dir}/{kind};"
                    for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (stage.dir / "nginx.conf").write_text(f"""
{user} worker_processes {workers}; daemon off; pid {stage.dir}/nginx.pid;
error_log {stage.dir}/error.log;
events {{ worker_connections 1024; }}
http {{ {temp} access_log off; keepalive_requests 100000000; sendfile on;
server {{ listen {stage.address}:{stage.port}; root {stage.dir}; }} }}
""")
    stage.server("nginx", "-p", stage.dir, "-c", stage.dir / "nginx.conf", "-e",
                 stage.dir / "error.log")


def wrk_figures(said):
    """Parses the output of wrk --latency."""
    rate = re.search(r"Requests/sec:\s*([\d.]+)", said)
    p50 = re.search(r"^\s+50%\s+([\d.]+)(us|ms|s)$", said, re.M)
    if not rate or not p50 or "Socket errors" in said or "Non-2xx" in said or not float(rate[1]):
        raise Failure(f"wrk: {said[-400:]}")
    return {"per_s": float(rate[1]), "p50_s": float(p50[1]) * TIMES_S[p50[2]]}


def nginx(connections, content=PAGE):
    def run(stage, seconds):
        nginx_server(stage)
        (stage.dir / "page").write_bytes(content)
        if stage.fetch("page") != content:
            raise Failure("nginx: wrong content")
        said, travel = stage.client("wrk", "-t", 1, "-c", connections, "-d", f"{whole(seconds)}s",
                                    "--latency",
                                    f"http://{stage.address}:{stage.port}/page",
                                    timeout_s=seconds + 20)
        return wrk_figures(said), travel
    return run


# Keeps connections open, as node does by itself.
NODE_SERVER = """require("http").createServer((request, response) => response.end(process.argv[2]))
    .listen(process.argv[1], "127.0.0.1")"""


def node(connections):
    """Of whatever node the PATH leads to."""
    def run(stage, seconds):
        stage.server("node", "-e", NODE_SERVER, stage.port, PAGE.decode())
        said, travel = stage.client("wrk", "-t", 1, "-c", connections, "-d", f"{whole(seconds)}s",
                                    "--latency", f"http://127.0.0.1:{stage.port}/",
                                    timeout_s=seconds + 20)
        return wrk_figures(said), travel
    return run


def evict(path):
    """Writes a file back, and removes it from the page cache."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def nginx_cold(stage, _):
    """One request for each of COLD_FILES files, none of which is in the page cache."""
    content = os.urandom(FILE_BYTES)
    paths = [stage.dir / f"cold{n}" for n in range(COLD_FILES)]
    for path in paths:
        path.write_bytes(content)
    nginx_server(stage)
    for path in paths:
        evict(path)
    said, travel = stage.client(
        "curl", "--silent", "--fail", "--output", "/dev/null", "--write-out",
        "%{size_download} %{time_total}\n",
        f"http://127.0.0.1:{stage.port}/cold[0-{COLD_FILES - 1}]")
    got = [line.split() for line in said.splitlines()]
    if [int(size) for size, _ in got] != [FILE_BYTES] * COLD_FILES:
        raise Failure(f"curl: {said[-400:]}")
    return {"per_s": COLD_FILES / sum(float(s) for _, s in got)}, travel


def memcaslap_figures(said):
    rate = re.search(r"Run time: ([\d.]+)s Ops: (\d+) TPS: (\d+)", said)
    if not rate or not int(rate[3]):
        raise Failure(f"memcaslap: {said[-400:]}")
    return {"per_s": float(rate[3])}


def memcached(stage, seconds):
    """memaslap's mix: nine gets for each set, values of 1 KiB."""
    user = ["-u", "root"] if os.geteuid() == 0 else []
    stage.server("memcached", *user, "-l", stage.address, "-p", stage.port, "-U", 0, "-t", 4)
    said, travel = stage.client("memcaslap", "-s", f"{stage.address}:{stage.port}", "-T", 4, "-c",
                                16, "-t", f"{whole(seconds)}s", timeout_s=seconds + 30)
    return memcaslap_figures(said), travel


def redis_run(command, clients, requests_per_s, pipeline=1, quick=True):
    title = f"redis {command.upper()}, {clients} client{'s' if clients > 1 else ''}"
    if pipeline > 1:
        title += f", pipeline {pipeline}"
    key = f"redis_{command}_p{pipeline}" if pipeline > 1 else f"redis_{command}_{clients}"
    targets, modes = (faster(3),), BOTH + (UNIX,)
    if pipeline > 1:
        title += "; limit: the programs' own time"
        targets, modes = (near_limit(round(1 / OF_OWN_TIME, 2)),), modes + (LIMIT,)
    row = Row(key, title, "k/s", "rps", KILO, False, targets, "P6")
    if clients == 1:
        # Computed from the rate, since its p50 is in steps of 8 µs. One client waits for each
        # answer.
        row = Row(key, title + ", time of a request", "µs", lambda r: 1e6 / r["rps"], 1, True,
                  (faster(6), faster(3, base=UNIX)), "P6")
    return Run(key, redis(command, clients, requests_per_s, pipeline), modes, (row,), quick=quick)


PROGRAMS = (
    Run("iperf3", iperf3, BOTH, whole=True, rows=(
        Row("iperf3", "iperf3, 1 stream", "Gb/s", "bits_per_s", GBIT, False, (faster(2.5),),
            "P5"),)),
    redis_run("get", 1, 30000),
    redis_run("set", 1, 30000, quick=False),
    redis_run("get", 50, 80000),
    redis_run("set", 50, 80000, quick=False),
    redis_run("get", 50, 400000, 16),
    redis_run("set", 50, 400000, 16, quick=False),
    Run("nginx_1", nginx(1), BOTH, whole=True, rows=(
        Row("nginx_1_p50", "nginx 612 B keep-alive, 1 connection, p50", "µs", "p50_s", 1e6, True,
            (faster(6),), "P7"),
        Row("nginx_1", "nginx 612 B keep-alive, 1 connection", "k/s", "per_s", KILO, part="P7"))),
    Run("nginx_64", nginx(64), BOTH, whole=True, rows=(
        Row("nginx_64", "nginx 612 B keep-alive, 64 connections", "k/s", "per_s", KILO, False,
            (faster(3),), "P7"),)),
    Run("nginx_file", nginx(1, os.urandom(FILE_BYTES)), BOTH, whole=True, quick=False, rows=(
        Row("nginx_file", "nginx 1 MiB file, 1 connection", "files/s", "per_s", 1, False,
            (faster(3),), "P7"),)),
    Run("nginx_cold", nginx_cold, BOTH, quick=False, rows=(
        Row("nginx_cold", "nginx 1 MiB files that are not in the page cache", "files/s", "per_s", 1,
            False, (faster(0.95),), "P7"),)),
    Run("node", node(16), BOTH, whole=True, quick=False, rows=(
        Row("node", "node's http server, 612 B keep-alive, 16 connections", "k/s", "per_s", KILO,
            False, (faster(2),)),)),
    Run("memcached", memcached, BOTH, whole=True, quick=False, rows=(
        Row("memcached", "memcached 4 threads, memcaslap 4 threads, 16 connections", "k/s", "per_s",
            KILO, False,
            (faster(3),), "P11"),)),
)
