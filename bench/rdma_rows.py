"""The rows of rdma.py: round trips, a stream, iperf3 and redis between two guests; and the same
with bare verbs (perftest)."""
import csv
import io
import json
import re

from rdma_stage import ASLEEP, GET_ONCE, GETS, GUEST, LIMITS, PEERS
from rows_programs import whole
from stages import LIMIT, Failure
from table import Row, Run

RSPERF = f"{GUEST}/bin/rsperf"
# Seconds of traffic before anything counts, the same for every transport: rsock begins on TCP, and
# TCP starts slowly.
SETTLE_S = 3
REDIS_SETTLE_S = 1.5  # the shortest duration of the PINGs that precede its other requests
SLOW_S = 25  # added to a program's time limit, for a guest that its host delays
MEGA = 1e-6
# Bytes, name, exchanges a second of perftest.
SIZES = ((64, "64 B", 500), (4096, "4 KiB", 400), (65536, "64 KiB", 100))
# Name, bytes of a send, perftest's writes in a second.
STREAMS = (("stream", 65536, "64 KiB", 250), ("bulk", 1 << 20, "1 MiB", 20))
REDIS = ((1, 1500), (16, 4500))  # clients, requests of each kind for a second


def perftest_figures(said):
    """Parses the line of figures that follows the line of their names."""
    lines = said.splitlines()
    for names, numbers in zip(lines, lines[1:]):
        if names.strip().startswith("#bytes"):
            columns = [re.sub(r"\[.*", "", name)
                       for name in re.split(r"(?<=\])\s+|\s{2,}|\s(?=#)", names.strip())]
            values = numbers.split()
            if len(values) == len(columns):
                return dict(zip(columns, map(float, values)))
    raise Failure(f"perftest: no figures in: {said[-300:]}")


def perftest(turn, program, size, count, *more):
    """Runs a perftest program: bare verbs, only the device between the two guests."""
    words = [program, *more, "-d", turn.guests.serves.rnic, "-x", 1, "-s", size, "-n", count, "-F",
             "-p", turn.port]
    turn.server("stdbuf", "-oL", *words, ready="Waiting for client")
    return perftest_figures(turn.client(*words, turn.host, timeout_s=SLOW_S))


def bare_lat(turn, size, count):
    """Polls memory, or sleeps for events. Both programs report half of each round trip."""
    program = ("ib_send_lat", "--events") if turn.mode is ASLEEP else ("ib_write_lat",)
    figures = perftest(turn, program[0], size, count, *program[1:])
    return {"rtt_ns": {"p50": figures["t_typical"] * 2e3, "p99": figures["99% percentile"] * 2e3}}


def write_bw(turn, size, count):
    """perftest reports MB of 2**20 bytes, and now and then none."""
    average = perftest(turn, "ib_write_bw", size, count)["BW average"]
    if average <= 0:
        raise Failure(f"ib_write_bw: {average} MB/s")
    return {"bits_per_s": average * (1 << 23)}


def rsperf(turn, seconds, *test):
    at = ("--wait", "recv", "--host", turn.host, "--port", turn.port)
    turn.server(RSPERF, "server", *at, ready="listening")
    said = turn.client(RSPERF, "client", *test, *at, "--time", seconds, "--warmup", SETTLE_S,
                       "--json",
                       timeout_s=SETTLE_S + seconds + SLOW_S, settle_s=SETTLE_S)
    return json.loads(said.splitlines()[-1])


def round_trips(size, each_s):
    def run(turn, seconds):
        if turn.mode in LIMITS:
            return bare_lat(turn, size, max(50, int(each_s * seconds)))
        return rsperf(turn, seconds, "--lat", "--size", size)
    return run


def get_bw(turn, size, seconds):
    turn.server("rdma_bulk", "server", turn.host, turn.port, ready="listening")
    registered = "once" if turn.mode is GET_ONCE else "each"
    return json.loads(turn.client("rdma_bulk", "client", turn.host, turn.port, size, seconds,
                                  registered, timeout_s=SLOW_S))


def stream(size, writes_per_s):
    def run(turn, seconds):
        if turn.mode in GETS:
            return get_bw(turn, size, seconds)
        if turn.mode is LIMIT:
            return write_bw(turn, size, max(10, int(writes_per_s * seconds)))
        return {"bits_per_s": rsperf(turn, seconds, "--bw", "--size",
                                     size)["out"]["gbit_per_s"] * 1e9}
    return run


def iperf3(turn, seconds):
    turn.server("iperf3", "--server", "--one-off", "--forceflush", "--bind", turn.host, "--port",
                turn.port,
                ready="Server listening")
    said = turn.client("iperf3", "--client", turn.host, "--port", turn.port, "--length", "64K",
                       "--json",
                       "--time", whole(seconds), "--omit", SETTLE_S,
                       timeout_s=SETTLE_S + whole(seconds) + SLOW_S,
                       settle_s=SETTLE_S)
    result = json.loads(said)
    if "error" in result or result["end"]["sum_received"]["bytes"] <= 0:
        raise Failure(f"iperf3: {result.get('error', 'nothing was received')}")
    return {"bits_per_s": result["end"]["sum_received"]["bits_per_second"]}


def redis_figures(said):
    """Requests a second by kind, from redis-benchmark --csv."""
    lines = [line for line in said.splitlines() if line.startswith('"')]
    rates = {row["test"].lower(): float(row["rps"])
             for row in csv.DictReader(io.StringIO("\n".join(lines)))}
    if not all(rates.get(kind) for kind in ("set", "get")):
        raise Failure(f"redis-benchmark: no figures in: {said[-300:]}")
    return rates


def redis(clients, requests_per_s):
    """Runs a number of requests, since redis-benchmark has no time limit; its PINGs come first and
    serve as settling time."""
    def run(turn, seconds):
        turn.server("redis-server", "--save", "", "--appendonly", "no", "--protected-mode", "no",
                    "--dir", "/run/bench",
                    "--bind", turn.host, "--port", turn.port, ready="Ready to accept connections")
        said = turn.client("redis-benchmark", "-h", turn.host, "-p", turn.port, "-t",
                           "ping_mbulk,set,get", "-c", clients,
                           "-n", int(requests_per_s * seconds), "--csv",
                           timeout_s=seconds * 15 + SLOW_S,
                           settle_s=REDIS_SETTLE_S)
        return redis_figures(said)
    return run


def lat_run(size, name, each_s, quick):
    key = f"lat_{size}"
    return Run(key, round_trips(size, each_s), (*PEERS, *LIMITS), quick=quick, rows=tuple(
        Row(f"{key}_{p}", f"round trip of {name}, {p}", "µs", f"rtt_ns.{p}", 1e-3,
            True) for p in ("p50", "p99")))


def redis_run(clients, requests_per_s, quick):
    title = f"{clients} client{'s' if clients > 1 else ''}"
    return Run(f"redis_{clients}", redis(clients, requests_per_s), PEERS, quick=quick, rows=tuple(
        Row(f"redis_{kind}_{clients}", f"redis {kind.upper()}, {title}", "requests/s",
            kind) for kind in ("set", "get")))


def stream_run(key, size, name, writes_per_s):
    return Run(key, stream(size, writes_per_s), (*PEERS, LIMIT, *GETS), quick=key == "stream",
               rows=(
        Row(key, f"one stream, sends of {name}", "Mb/s", "bits_per_s", MEGA),))


RUNS = tuple(lat_run(*size, quick=size[0] != 4096)
             for size in SIZES) + tuple(stream_run(*each) for each in STREAMS) + (
    Run("iperf3", iperf3, PEERS, whole=True,
        rows=(Row("iperf3", "iperf3 -l 64K", "Mb/s", "bits_per_s", MEGA),)),
) + tuple(redis_run(*load, quick=load[0] == 1) for load in REDIS)
