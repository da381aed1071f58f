"""Rows that rsperf measures between two processes: latency, throughput, messages, connections, CPU
time."""
import json
import os

from stages import LIMIT, NO_HASH, ONE_SIDE, RSPERF, SLEEP, SLOTS, SPIN, TCP, UNIX, Travel
from table import CostTarget, Row, Run, faster, figure_at_least, near_limit

BOTH = (TCP, SPIN, SLEEP)
US, MEGA, GB = 1e-3, 1e-6, 1e9
SIZES = (64, 256, 1024, 4096, 16384, 65536, 262144, 1048576)
CONNS = (1, 2, 4, 8, 16, 32, 64)
SLOT_SIZES = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16360)
WARM_UP = ["--warmup", 0.1]


def where(stage):
    return ["--unix", stage.unix] if stage.mode.unix else ["--port", stage.port]


def ends(pinned):
    """--pin options for server and client: a CPU each, for effects that are smaller than the
    scheduler's."""
    cpus = sorted(os.sched_getaffinity(0))
    if not pinned or len(cpus) < 2:
        return [], []
    return ["--pin", cpus[0]], ["--pin", cpus[-1]]


def last_json(said):
    return json.loads(said.splitlines()[-1])


def limit(stage, means, seconds, pinned=False):
    """The limit: what two processes of this machine can do without sockets. Two spinning processes
    get a CPU each, since sharing one would be no limit."""
    cpus = sorted(os.sched_getaffinity(0))
    spins = {"--cacheline", "--hash", "--slots"} & set(means)
    pins = ["--pin", f"{cpus[0]},{cpus[-1]}"] if (pinned or spins) and len(cpus) > 1 else []
    said, travel = stage.client(RSPERF, "limit", *means, "--time", seconds, *WARM_UP, "--json",
                                *pins)
    return last_json(said), travel


def rsperf(test, wait=("recv",), means=None, pinned=False, server=(), warm_up=WARM_UP, cpu=False):
    """wait: at both ends; means: options of rsperf limit, for that mode; cpu: CPU time of both
    ends, from start to end."""
    def run(stage, seconds):
        if stage.mode is LIMIT:
            return limit(stage, means, seconds, pinned)
        pins = ends(pinned)
        stage.server(RSPERF, "server", "--wait", *wait, *server, *pins[0], *where(stage))
        said, travel = stage.client(RSPERF, "client", *test, "--wait", *wait, "--time", seconds,
                                    *warm_up, "--json",
                                    *pins[1], *where(stage), timeout_s=seconds + 30)
        result = last_json(said)
        if cpu:
            result["cpu_s"] = stage.cpu_s()
        return result, travel
    return run


def slots(stage, seconds, sizes):
    said, _ = stage.client(SLOTS, seconds, *sizes, timeout_s=seconds + 20)
    return json.loads(said)["slots"]


def every_slot(stage, seconds):
    return {"slots": slots(stage, seconds, SLOT_SIZES)}, Travel()


def cpu_per_message(stage, seconds):
    """The limit here: hash and copy of both ends alone, in one thread."""
    if stage.mode is LIMIT:
        alone = slots(stage, seconds, [64])[0]
        return {"cpu_s": (alone["copy_ns"] + alone["hash_ns"]) / GB, "out": {"bytes": 64}}, Travel()
    return rsperf(["--rate"], warm_up=["--warmup", 0], cpu=True)(stage, seconds)


def by_size(test, pick, wait=("recv",)):
    """One server, and a client for each size."""
    def run(stage, seconds):
        stage.server(RSPERF, "server", "--wait", *wait, *where(stage))
        points, travel = {}, Travel()
        for size in SIZES:
            said, went = stage.client(RSPERF, "client", test, "--size", size, "--wait", *wait,
                                      "--json", "--time",
                                      seconds / len(SIZES), "--warmup", 0.05, *where(stage),
                                      timeout_s=seconds + 30)
            points[size] = pick(last_json(said))
            travel.add(went)
        return points, travel
    return run


def by_conns(stage, seconds):
    stage.server(RSPERF, "server", "--wait", "epoll", "--nonblock", *where(stage))
    points, travel = {}, Travel()
    for conns in CONNS:
        said, went = stage.client(RSPERF, "client", "--lat", "--conns", conns, "--wait", "epoll",
                                  "--nonblock",
                                  "--json", "--time", seconds / len(CONNS), "--warmup", 0.05,
                                  *where(stage),
                                  timeout_s=seconds + 30)
        points[conns] = last_json(said)["per_s"] / 1e3
        travel.add(went)
    return points, travel


def threads(stage, seconds):
    """16 connections, in one thread at each end and in four."""
    result, travel = {}, Travel()
    for count in (1, 4):
        stage.elsewhere()
        server = stage.server(RSPERF, "server", "--wait", "epoll", "--threads", count,
                              *where(stage))
        said, went = stage.client(RSPERF, "client", "--lat", "--conns", 16, "--wait", "epoll",
                                  "--threads", count,
                                  "--time", seconds / 2, *WARM_UP, "--json", *where(stage),
                                  timeout_s=seconds + 30)
        stage.end(server)
        result[f"threads_{count}"] = last_json(said)
        travel.add(went)
    return result, travel


def pairs(test, count, one_core=False):
    """Several clients and servers at once: the sum, and the worst p99."""
    def run(stage, seconds):
        pin = ["--pin", min(os.sched_getaffinity(0))] if one_core else []
        clients = []
        for _ in range(count):
            stage.elsewhere()
            stage.server(RSPERF, "server", "--wait", "recv", *pin, *where(stage))
            clients.append((stage.port, where(stage)))
        started, travel, results = [], Travel(), []
        for stage.port, at in clients:
            started.append(stage.start(RSPERF, "client", test, "--time", seconds, *WARM_UP,
                                       "--json", *pin, *at))
        for client in started:
            said, went = stage.finish(client, seconds + 30)
            results.append(last_json(said))
            travel.add(went)
        if test == "--bw":
            return {"gbit_per_s": sum(r["out"]["gbit_per_s"] for r in results)}, travel
        return {"per_s": sum(r["per_s"] for r in results),
                "p99": max(r["rtt_ns"]["p99"] for r in results)}, travel
    return run


def calls(kind):
    def run(stage, seconds):
        said, _ = stage.client(RSPERF, "calls", kind, "--time", seconds, "--warmup", 0.02, "--json",
                               *ends(True)[1])
        return last_json(said), Travel(known=True)
    return run


def lat(key, title, wait, targets):
    """A ping-pong."""
    return Run(key, rsperf(["--lat"], wait), BOTH + (UNIX,), quick=False, rows=(
        Row(key, f"64 B ping-pong, {title}, p50", "µs", "rtt_ns.p50", US, True, targets, "P3"),))


def turn(name, size, count, times):
    """Request and reply of that size: a stream that runs dry and full in turn."""
    return Run(f"turn_{name}", rsperf(["--lat", "--size", count]), BOTH + (UNIX,), quick=False,
               rows=(Row(f"turn_{name}", f"{size} there and {size} back, recv, p50", "µs",
                         "rtt_ns.p50", US, True, (faster(times),), "P3 P5"),))


def two_limits(key, what, wait, asleep, spinning, sleeping, pinned, quick, parts):
    """A ping-pong with two limits: a cache line for a transport that spins, and for one that sleeps
    what *asleep* says, (option of rsperf limit, name)."""
    call = rsperf(["--lat"], wait, pinned=pinned)
    title = f"64 B ping-pong, {what}{', pinned' if pinned else ''}, p50"

    def run(stage, seconds):
        if stage.mode is not LIMIT:
            return call(stage, seconds)
        line, _ = limit(stage, ["--cacheline"], seconds / 2, pinned)
        slept, travel = limit(stage, [asleep[0]], seconds / 2, pinned)
        return {**line, "asleep": slept}, travel
    return Run(key, run, BOTH + (UNIX, LIMIT), quick=quick, rows=(
        Row(key, f"{title}; limit: a cache line", "µs", "rtt_ns.p50", US, True, spinning, parts[0]),
        Row(key + "_asleep", f"{title}; limit: {asleep[1]}", "µs",
            lambda r: r.get("asleep", r)["rtt_ns"]["p50"], US, True, (near_limit(sleeping, SLEEP),),
            parts[1])))


def lat_recv(key, pinned, quick):
    return two_limits(key, "recv", ("recv",), ("--futex", "a futex"),
                      (near_limit(1.4), faster(30)), 1.1, pinned, quick, ("P1", "P2"))


def lat_epoll(key, pinned, quick):
    return two_limits(key, "epoll, non-blocking", ("epoll", NONBLOCK),
                      ("--eventfd-epoll", "an eventfd in epoll"),
                      (near_limit(2), faster(25)), 1.15, pinned, quick, ("P3", "P2"))


def bandwidth(key, title, size, targets, pinned=False, quick=True):
    """Two limits: one copy by the kernel; the same with the hash that a transfer without our copies
    would need."""
    call = rsperf(["--bw", "--size", size], pinned=pinned)

    def run(stage, seconds):
        if stage.mode is not LIMIT:
            return call(stage, seconds)
        copy, _ = limit(stage, ["--copy", "--size", size], seconds / 2, pinned)
        hashed, travel = limit(stage, ["--copy", "--hash", "--size", size], seconds / 2, pinned)
        return {**copy, "hashed": hashed}, travel
    return Run(key, run, BOTH + (UNIX, LIMIT), quick=quick, rows=(
        Row(key, f"{title} sends; limit: one copy", "Gb/s", gbit, 1, False, targets, "P5"),
        Row(key + "_hashed", f"{title} sends; limit: one copy, hashed at both ends", "Gb/s",
            lambda r: gbit(r.get("hashed", r)), 1, False, (), "P5")))


def gbit(result):
    """The rate of a stream; for the limit, which copies messages of the size it reports, from the
    median: two processes that spin for each other lose whole time slices when other processes run.
    """
    if "limit" in result:
        return result["size_bytes"] * 8 / result["rtt_ns"]["p50"]
    return result["out"]["gbit_per_s"]


def rate(key, title, pinned=False, quick=True):
    return Run(key, rsperf(["--rate"], means=["--slots"], pinned=pinned), BOTH + (UNIX, LIMIT),
               quick=quick, rows=(
        Row(key, f"64 B messages, one way{title}; limit: a bare loop over the same slots", "M/s",
            "out.messages_per_s", MEGA,
            False, (faster(50), near_limit(1.5)), "P4"),))


def not_below(*modes):
    return tuple(faster(1, mode) for mode in modes)


def alone(key, title, unit, pick, scale, lower, call, quick=False):
    return Run(key, call, (TCP, ONE_SIDE), earns=False, turns=10, quick=quick, cost_s=0.2, rows=(
        Row(key, title, unit, pick, scale, lower, (CostTarget(1),), "P9"),))


NONBLOCK = "--nonblock"
CPU_BYTES = Row("cpu_gb", "128 KiB sends, processor time of both ends", "s/GB",
                lambda r: r["cpu_s"] / (r["out"]["bytes"] / GB), 1, True, not_below(SLEEP), "P13")
CPU_MESSAGES = Row("cpu_messages", "64 B messages, processor time of both ends", "s a million",
                   lambda r: r["cpu_s"] / (r["out"]["bytes"] / 64) / MEGA, 1, True,
                   not_below(SLEEP), "P4 P13")
LATENCIES = (
    lat_recv("lat_recv", False, True),
    lat_recv("lat_recv_pin", True, False),
    lat_epoll("lat_epoll", False, True),
    lat_epoll("lat_epoll_pin", True, False),
    lat("lat_poll", "poll, non-blocking", ("poll", NONBLOCK), (faster(20),)),
    turn("4k", "4 KiB", 4096, 4),
    turn("16k", "16 KiB", 16384, 3),
    turn("64k", "64 KiB", 65536, 1.5),
    lat("lat_select", "select, non-blocking", ("select", NONBLOCK), (faster(20),)),
)
THROUGHPUT = (
    rate("rate", ""),
    rate("rate_pin", ", pinned", True, False),
    bandwidth("bw_1m", "1 MiB", "1M", (near_limit(1.1), faster(2.5))),
    bandwidth("bw_1m_pin", "1 MiB, pinned,", "1M", (near_limit(1.1), faster(2.5)), True, False),
    bandwidth("bw", "128 KiB", "128K", (faster(2.5),), quick=False),
)
CONNECTIONS = (
    Run("conn", rsperf(["--conn"], ("epoll",)), BOTH + (UNIX,), earns=False, rows=(
        Row("conn", "connect, 64 B, reply, close", "k/s", "per_s", 1e-3, False,
            (faster(0.98), faster(0.98, SLEEP)),
            "P8"),)),
)
ALONE = (
    alone("alone_lat", "64 B ping-pong, only the client preloaded", "µs", "rtt_ns.p50", US, True,
          rsperf(["--lat"], pinned=True, warm_up=["--warmup", 0.05]), True),
    alone("alone_bw", "128 KiB sends, only the client preloaded", "Gb/s", "out.gbit_per_s", 1,
          False,
          rsperf(["--bw"], pinned=True, warm_up=["--warmup", 0.05])),
    alone("alone_udp", "UDP: send and recv of 64 B", "ns a call", "ns_per_call", 1, True,
          calls("--udp"), True),
    alone("alone_local", "Unix socket: write and read of 64 B", "ns a call", "ns_per_call", 1, True,
          calls("--local")),
    alone("alone_file", "file: pwrite and pread of 64 B", "ns a call", "ns_per_call", 1, True,
          calls("--file")),
)
MANY = (
    Run("threads", threads, BOTH + (UNIX,), quick=False, cost_s=0.7, rows=(
        Row("threads_16", "16 connections, 4 threads at each end", "k/s", "threads_4.per_s", 1e-3,
            False,
            (faster(3),), "P11"),
        Row("threads_keep", "the same, against 1 thread at each end", "×",
            lambda r: r["threads_4"]["per_s"] / r["threads_1"]["per_s"], 1, False,
            (figure_at_least(0.9),), "P11"))),
    Run("pairs_lat", pairs("--lat", 4), BOTH + (UNIX,), cost_s=0.5, rows=(
        Row("pairs_lat", "4 pairs at once, round trips", "k/s", "per_s", 1e-3, False,
            not_below(SPIN, SLEEP), "P12"),
        Row("pairs_p99", "4 pairs at once, worst p99", "µs", "p99", US, True,
            not_below(SPIN, SLEEP), "P12"))),
    Run("pairs_bw", pairs("--bw", 4), BOTH + (UNIX,), quick=False, cost_s=0.5, rows=(
        Row("pairs_bw", "4 pairs at once, 128 KiB sends", "Gb/s", "gbit_per_s", 1, False,
            not_below(SPIN, SLEEP),
            "P12"),)),
    Run("core_lat", pairs("--lat", 1, True), BOTH + (UNIX,), rows=(
        Row("core_lat", "a pair on one core, round trips", "k/s", "per_s", 1e-3, False,
            not_below(SPIN, SLEEP),
            "P12"),
        Row("core_p99", "a pair on one core, p99", "µs", "p99", US, True, not_below(SPIN, SLEEP),
            "P12"))),
    Run("core_bw", pairs("--bw", 1, True), BOTH + (UNIX,), quick=False, rows=(
        Row("core_bw", "a pair on one core, 128 KiB sends", "Gb/s", "gbit_per_s", 1, False,
            not_below(SPIN, SLEEP),
            "P12"),)),
)
CPU = (
    Run("cpu_gb", rsperf(["--bw"], warm_up=["--warmup", 0], cpu=True), BOTH + (UNIX,),
        (CPU_BYTES,)),
    Run("cpu_messages", cpu_per_message, BOTH + (UNIX, LIMIT), (CPU_MESSAGES,)),
)
SLOTS_ALONE = Run("slots", every_slot, (LIMIT,), (), earns=False, rounds=1, share=2)
SWEEPS = (
    Run("lat_by_size", by_size("--lat", lambda r: r["rtt_ns"]["p50"] * US), BOTH + (NO_HASH, UNIX),
        (), quick=False, rounds=3,
        cost_s=1.2, share=1.6, axis="bytes"),
    Run("bw_by_size", by_size("--bw", gbit), BOTH + (NO_HASH, UNIX), (), quick=False, rounds=3,
        cost_s=1.2, share=1.6,
        axis="bytes"),
    Run("by_conns", by_conns, BOTH + (UNIX,), (), quick=False, rounds=3, cost_s=1.2, share=1.4,
        axis="connections"),
)
