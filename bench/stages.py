"""Shared by the comparisons: modes, stages whose processes always end, and the paths that streams
used."""
import contextlib
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

from lib.processes import (Failure, dies_with_parent, environment, free_port, listening_ports,
                           tail_of, until)
from lib.streams import ring_bytes, streams_of, tcp_bytes

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Absolute, since the programs run in folders of their own.
BUILD = pathlib.Path(os.environ.get("RSOCK_BUILD", ROOT / "build")).resolve()
LIBRSOCK = pathlib.Path(os.environ.get("LIBRSOCK", BUILD / "lib" / "librsock.so")).resolve()
RSPERF = BUILD / "bin" / "rsperf"
SLOTS = BUILD / "bin" / "slots"

# Debian's folder for nginx, which is not in every user's PATH.
os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin"

READY_S = 10
END_S = 5


@dataclass(frozen=True)
class Mode:
    name: str
    server: bool = False  # preloaded?
    client: bool = False
    unix: bool = False
    env: tuple = ()
    library: pathlib.Path = LIBRSOCK


TCP = Mode("tcp")
SPIN = Mode("spin", server=True, client=True)
SLEEP = Mode("sleep", server=True, client=True, env=(("RSOCK_SPIN_US", "0"),))
NO_HASH = Mode("nohash", server=True, client=True, library=BUILD / "lib" / "librsock-nohash.so")
UNIX = Mode("unix", unix=True)
ONE_SIDE = Mode("one side", client=True)
LIMIT = Mode("limit")  # what the machine can do without sockets


@dataclass
class Travel:
    """The paths that the streams of one process used, by its own statistics."""

    known: bool = False
    streams: int = 0
    direct: int = 0
    ring_bytes: int = 0
    tcp_bytes: int = 0
    demotions: int = 0
    reasons: dict = field(default_factory=dict)

    def add(self, other):
        self.known |= other.known
        for name in ("streams", "direct", "ring_bytes", "tcp_bytes", "demotions"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for reason, n in other.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + n

    def share(self):
        total = self.ring_bytes + self.tcp_bytes
        return self.ring_bytes / total if total else 0.0

    def verdict(self):
        if not self.known:
            return "unknown"
        return "direct" if self.share() >= 0.9 else "partly" if self.direct else "TCP"

    def text(self):
        if not self.known:
            return "unknown: the process left no statistics"
        if not self.streams:
            return "no TCP stream"
        if not self.direct:
            text = f"stayed on TCP, direct 0/{self.streams}"
        else:
            text = (f"direct {self.direct}/{self.streams}, "
                    f"{floor_percent(self.share())} of the bytes")
        if self.demotions:
            text += f", {self.demotions} demotions"
        if self.reasons:
            text += " (" + ", ".join(f"{n}× {r}" for r, n in sorted(self.reasons.items())) + ")"
        return text


def floor_percent(share):
    """Rounds down, so that "100 %" always means all."""
    return f"{int(share * 1000) / 10:g} %"


def read_travel(path, port):
    """The streams to a server's port, from the file that RSOCK_STAT_FILE named."""
    try:
        return travel_of(path.read_text().splitlines(), port)
    except FileNotFoundError:
        return Travel()


def travel_of(lines, port):
    """The same from the file's lines, each as `rsock stat --json` prints it."""
    travel = Travel()
    for line in lines:
        travel.known = True
        for s in streams_of(line):
            if not s["peer"].endswith(f":{port}"):
                continue
            ring = ring_bytes(s)
            travel.streams += 1
            travel.ring_bytes += ring
            travel.tcp_bytes += tcp_bytes(s)
            travel.demotions += s["demotions"]
            if ring:
                travel.direct += 1
            else:
                travel.reasons[s["reason"]] = travel.reasons.get(s["reason"], 0) + 1
    return travel


@dataclass
class Client:
    """A client that was started. Its stage owns the process."""

    name: str
    port: int
    stat: pathlib.Path
    log: pathlib.Path
    process: subprocess.Popen = None


class Stage:
    """One measurement with its folder and processes. Leaving it always ends them."""

    def __init__(self, mode):
        self.mode = mode
        self.address = "127.0.0.1"  # of the server, as its clients know it
        self.places = {}  # network namespaces: of the "server", of the "client"; others: ours
        self.more = {}  # of the environment of both
        self.processes = []
        self.crashes = []

    def __enter__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="rsock-bench-"))
        self.port = free_port()
        self.unix = self.dir / "server.sock"
        return self

    def __exit__(self, *_):
        for p in reversed(self.processes):
            self.end(p)
        shutil.rmtree(self.dir, ignore_errors=True)

    def end(self, p):
        """Ends a process and all that it started."""
        if p.returncode is not None:
            return  # already reaped, so its PID may be another process's by now
        os.kill(p.pid, signal.SIGTERM)  # not send_signal(), which may reap the process
        deadline = time.monotonic() + END_S
        while not os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if time.monotonic() > deadline:
                break
            time.sleep(0.002)
        # The process leads a session of its own and has not been reaped, so this process group is
        # certainly ours.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGKILL)
        self._reap(p)
        if p.returncode < 0 and -p.returncode not in (signal.SIGTERM, signal.SIGKILL):
            self.crashes.append(f"{p.args[0]} ended by {signal.Signals(-p.returncode).name}")

    @staticmethod
    def _reap(p):
        """Reaps a process, and saves the CPU time that it and its children used: all of it, and in
        user mode."""
        _, status, used = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        p.cpu_s = used.ru_utime + used.ru_stime
        p.user_s = used.ru_utime

    def _env(self, preloaded, stat):
        return environment(lambda name: name.startswith("RSOCK_"),
                           self.mode.library if preloaded else None, stat,
                           **{**dict(self.mode.env), **self.more})

    def in_place(self, place, argv, env):
        """Words that start a program there, and the environment of what starts it: the library is
        for the program alone."""
        if place not in self.places:
            return [str(a) for a in argv], env
        env = dict(env)
        library = [f"LD_PRELOAD={env.pop('LD_PRELOAD')}"] if "LD_PRELOAD" in env else []
        return ["ip", "netns", "exec", self.places[place], "env", *library,
                *(str(a) for a in argv)], env

    def spawn(self, place, argv, preloaded, stat, out):
        words, env = self.in_place(place, argv, self._env(preloaded, stat))
        p = subprocess.Popen(words, env=env, cwd=self.dir,
                             stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                             start_new_session=True,
                             preexec_fn=dies_with_parent(signal.SIGTERM))
        self.processes.append(p)
        return p

    def fetch(self, path):
        """What the server says of it by HTTP; not measured, and without the library."""
        words, env = self.in_place("client", ["curl", "--silent", "--fail",
                                              f"http://{self.address}:{self.port}/{path}"],
                                   self._env(False, None))
        done = subprocess.run(words, env=env, capture_output=True, timeout=10, check=False)
        if done.returncode:
            raise Failure(f"curl: status {done.returncode}")
        return done.stdout

    def server(self, *argv):
        """Starts a server at self.port, or self.unix, and returns it once it listens."""
        n = len(self.processes)
        log = self.dir / f"server{n}.log"
        with open(log, "wb") as out:
            p = self.spawn("server", argv, self.mode.server, self.dir / f"server{n}.stat", out)

        def ready():
            if os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                raise Failure(f"{argv[0]} ended")
            return self.unix.exists() if self.mode.unix else self.port in listening_ports(p.pid)
        try:
            until(ready, READY_S, f"{argv[0]} to listen")
        except Failure as failure:
            raise Failure(f"{failure}: {tail_of(log, 400)}") from None
        return p

    def elsewhere(self):
        """Selects another port, or path, for the next server and its clients."""
        self.port = free_port()
        self.unix = self.dir / f"server{len(self.processes)}.sock"

    def start(self, *argv):
        """Starts a client of the server at self.port; finish() returns its result."""
        n = len(self.processes)
        client = Client(str(argv[0]), self.port, self.dir / f"client{n}.stat",
                        self.dir / f"client{n}.log")
        with open(client.log, "wb") as out:
            client.process = self.spawn("client", argv, self.mode.client, client.stat, out)
        return client

    def finish(self, client, timeout_s=60):
        """Waits for a client; returns its output, and the paths of its streams to the server."""
        watch = select.poll()
        fd = os.pidfd_open(client.process.pid)
        try:
            watch.register(fd, select.POLLIN)
            if not watch.poll(timeout_s * 1000):
                raise Failure(f"{client.name} did not end within {timeout_s:.0f} s")
        finally:
            os.close(fd)
        self._reap(client.process)
        said = client.log.read_text(errors="replace")
        if "cannot be preloaded" in said:
            raise Failure(f"{client.name} ran without the library: {said[:400]}")
        if client.process.returncode:
            raise Failure(f"{client.name} ended with status {client.process.returncode}: "
                          f"{said[-400:]}")
        return said, read_travel(client.stat, client.port)

    def client(self, *argv, timeout_s=60):
        """Runs a client to its end."""
        return self.finish(self.start(*argv), timeout_s)

    def cpu_s(self):
        """Ends all processes; returns the CPU time, user and system, that they used in total."""
        for p in reversed(self.processes):
            self.end(p)
        return sum(p.cpu_s for p in self.processes)

    def own_s(self):
        """Ends all processes; returns the time in user mode of the one that used the most."""
        self.cpu_s()
        return max(p.user_s for p in self.processes)


def require(*programs):
    """Exits with instructions if something is missing."""
    missing = [str(p) for p in programs if not shutil.which(str(p))]
    if not LIBRSOCK.exists():
        missing.append(str(LIBRSOCK))
    if missing:
        sys.exit("missing: "
                 + ", ".join(missing) + " (make build installs and builds what is needed)")


def end_on_signals():
    """Makes SIGTERM and SIGHUP unwind the stages as Ctrl-C does."""
    def end(signo, _):
        sys.exit(128 + signo)
    for signo in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(signo, end)


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8")
                  if line.startswith("model name")), "unknown")
    return {"cpu": model, "cpus": os.cpu_count(), "kernel": os.uname().release}
