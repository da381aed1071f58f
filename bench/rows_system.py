"""Rows with many idle streams: their memory, what they cost the active ones, and that so many are
possible."""
import contextlib
import os
import time

from rows_rsperf import last_json, where
from stages import RSPERF, SPIN, TCP, Failure
from table import Row, Run, figure_at_least, figure_at_most

FEW, SOME, MANY = 10, 510, 10000
WAIT = ("--wait", "epoll", "--nonblock")
OPEN_S = 120


def at_rest(stage, idle, conns, seconds, look=None):
    """Runs a server and a client with idle streams beside active ones; look: called with both while
    they run."""
    stage.elsewhere()
    server = stage.server(RSPERF, "server", *WAIT, *where(stage))
    client = stage.start(RSPERF, "client", "--lat", *WAIT, "--conns", conns, "--idle", idle,
                         "--time", seconds,
                         "--json", *where(stage))
    seen = None
    deadline = time.monotonic() + OPEN_S
    while look and "streams rest" not in client.log.read_text(errors="replace"):
        if time.monotonic() > deadline or os.waitid(os.P_PID, client.process.pid,
                                                    os.WEXITED | os.WNOHANG | os.WNOWAIT):
            raise Failure(f"rsperf: its streams never rested: "
                          f"{client.log.read_text(errors='replace')[-400:]}")
        time.sleep(0.01)
    if look:
        seen = look(server.pid, client.process.pid)
    said, travel = stage.finish(client, OPEN_S + seconds)
    stage.end(server)
    return last_json(said), travel, seen


def rollup(pid):
    """Memory of a process by kind, in bytes, from smaps_rollup."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        lines = [line.split() for line in f]
    return {cells[0].rstrip(":"): int(cells[1]) * 1024 for cells in lines if cells[-1] == "kB"}


def shared_files(pids):
    """Bytes of the shared memory that these processes map, each object counted once; None if that
    may not be read."""
    sizes = {}
    for pid in pids:
        try:
            for name in os.listdir(f"/proc/{pid}/map_files"):
                path = f"/proc/{pid}/map_files/{name}"
                with contextlib.suppress(FileNotFoundError):
                    if os.readlink(path).startswith(("/memfd:", "/dev/zero")):
                        info = os.stat(path)
                        sizes[info.st_ino] = info.st_blocks * 512
        except PermissionError:
            return None
    return sum(sizes.values())


def memory(*pids):
    """Memory of both ends together. A memory file counts with its allocated size, not with what is
    mapped at the moment."""
    parts = [rollup(pid) for pid in pids]
    shared = shared_files(pids)
    if shared is None:
        return sum(p["Pss"] for p in parts)
    return sum(p["Pss"] - p.get("Pss_Shmem", 0) for p in parts) + shared


def idle_memory(stage, seconds):
    """The growth from FEW to SOME idle streams, divided by the number of streams added: direct
    ones, if the library is used."""
    del seconds
    _, few, before = at_rest(stage, FEW, 1, 0.5, memory)
    _, some, after = at_rest(stage, SOME, 1, 0.5, memory)
    grown = some.direct - few.direct if stage.mode.client else SOME - FEW
    if grown <= 0:
        raise Failure(f"no stream rests direct: {some.text()}")
    return {"bytes": (after - before) / grown, "streams": grown}, some


def idle_cost(stage, seconds):
    """A round trip of ten active streams, beside few idle ones and beside many."""
    few, _, _ = at_rest(stage, FEW, 10, seconds)
    many, travel, _ = at_rest(stage, MANY, 10, seconds)
    return {"few": few, "many": many, "opened": many["idle"],
            "opened_per_s": many["idle"] / many["idle_s"],
            "direct": 100 * travel.direct / travel.streams if travel.streams else 0.0}, travel


SYSTEM = (
    Run("idle_memory", idle_memory, (TCP, SPIN), rounds=2, quick=False, cost_s=3, share=0, rows=(
        Row("idle_memory", "memory of a stream at rest, both ends", "KiB", "bytes", 1 / 1024, True,
            (figure_at_most(16),), "P10"),)),
    Run("idle_cost", idle_cost, (TCP, SPIN), rounds=2, quick=False, cost_s=12, rows=(
        Row("idle_cost", "10 streams beside 10,000 at rest, against beside 10, time of a round "
                         "trip", "×",
            lambda r: r["many"]["rtt_ns"]["mean"] / r["few"]["rtt_ns"]["mean"], 1, True,
            (figure_at_most(1.2),),
            "P10"),
        Row("idle_many", "streams opened, used, at rest, and used again", "streams", "opened", 1,
            False,
            (figure_at_least(MANY),), "P10"),
        Row("idle_direct", "of these streams, direct", "%", "direct", part="P10"),
        Row("idle_rate", "the same, opened and used a second", "k/s", "opened_per_s", 1e-3,
            part="P10"))),
)
