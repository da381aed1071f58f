"""Rows of programs in two containers on a bridge: network namespaces with a veth pair each, and
rsockd beside the bridge, which brings their streams together. As root."""
import contextlib
import json
import os
import subprocess

from rows_programs import GBIT, KILO, iperf3, memcached, nginx, redis
from stages import BUILD, READY_S, SLEEP, SPIN, TCP, Failure, tail_of, until
from table import Row, Run, faster

BOTH = (TCP, SPIN, SLEEP)
HOST, SERVER, CLIENT = "host", "server", "client"
ADDRESSES = {HOST: "10.77.0.1", SERVER: "10.77.0.2", CLIENT: "10.77.0.3"}


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"ip {' '.join(words)}: {done.stderr.strip()}")


def wire(places):
    for ns in places.values():
        ip("-n", ns, "link", "set", "lo", "up")
    ip("-n", places[HOST], "link", "add", "bridge", "type", "bridge")
    for place in (SERVER, CLIENT):
        ip("-n", places[HOST], "link", "add", place, "type", "veth", "peer", "name", "eth0",
           "netns", places[place])
        ip("-n", places[HOST], "link", "set", place, "master", "bridge", "up")
    for place, device in ((HOST, "bridge"), (SERVER, "eth0"), (CLIENT, "eth0")):
        ip("-n", places[place], "address", "add", f"{ADDRESSES[place]}/24", "dev", device)
        ip("-n", places[place], "link", "set", device, "up")


def rsockd(stage):
    """As on the host of the containers; they see its socket."""
    local, log = stage.dir / "run" / "local.sock", stage.dir / "rsockd.log"
    for folder in ("run", "state"):
        (stage.dir / folder).mkdir()
    (stage.dir / "rsockd.conf").write_text(json.dumps({
        "local": str(local), "control": str(stage.dir / "control.sock"),
        "state": str(stage.dir / "state"), "vouch": [{"users": ["root"]}]}))
    with open(log, "wb") as out:
        p = stage.spawn(HOST, [BUILD / "bin" / "rsockd", "-c", stage.dir / "rsockd.conf"], False,
                        None, out)

    def ready():
        if os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            raise Failure(f"rsockd ended: {tail_of(log, 400)}")
        return local.exists()
    until(ready, READY_S, "rsockd to listen")
    stage.more["RSOCK_DAEMON"] = str(local)


@contextlib.contextmanager
def containers(stage):
    """The stage's server and clients run in one each."""
    if os.geteuid():
        raise Failure("network namespaces need root")
    places = {place: f"rsock{os.getpid()}{place}" for place in ADDRESSES}
    try:
        for ns in places.values():
            ip("netns", "add", ns)
        wire(places)
        stage.places, stage.address = places, ADDRESSES[SERVER]
        if stage.mode.server:
            rsockd(stage)
        yield
    finally:
        for p in reversed(stage.processes):
            stage.end(p)
        for ns in places.values():
            with contextlib.suppress(Failure):
                ip("netns", "delete", ns)


def inside(call):
    def run(stage, seconds):
        with containers(stage):
            return call(stage, seconds)
    return run


def row(key, title, unit, pick, scale, *targets):
    return (Row(f"containers_{key}", f"two containers: {title}", unit, pick, scale, False,
                targets),)


CONTAINERS = (
    Run("containers_iperf3", inside(iperf3), BOTH, whole=True, quick=False, rounds=3, cost_s=1,
        rows=row("iperf3", "iperf3, 1 stream", "Gb/s", "bits_per_s", GBIT, faster(2))),
    Run("containers_redis_1", inside(redis("get", 1, 20000)), BOTH, quick=False, rounds=3,
        cost_s=1, rows=row("redis_1", "redis GET, 1 client", "k/s", "rps", KILO, faster(3))),
    Run("containers_redis_50", inside(redis("get", 50, 60000)), BOTH, quick=False, rounds=3,
        cost_s=1, rows=row("redis_50", "redis GET, 50 clients", "k/s", "rps", KILO, faster(3))),
    Run("containers_nginx", inside(nginx(64)), BOTH, whole=True, quick=False, rounds=3, cost_s=1,
        rows=row("nginx", "nginx 612 B keep-alive, 64 connections", "k/s", "per_s", KILO,
                 faster(3))),
    Run("containers_memcached", inside(memcached), BOTH, whole=True, quick=False, rounds=3,
        cost_s=1, rows=row("memcached", "memcached 4 threads, memcaslap 4 threads, 16 connections",
                           "k/s", "per_s", KILO, faster(1.71))),
)
