"""Hosts as network namespaces on one wire, which can be made a bad one; each host can have its own
rsockd. The net_*.py scripts use it.

A host is 10.77.0.N and fd77::N; further addresses can be added. A case makes all of it, and removes
it at its end.
"""
import atexit
import ctypes
import http.client
import json
import os
import select
import shutil
import socket
import subprocess
import time

import local
from lib.daemon import Daemon
from lib.harness import Failure

HERE = os.path.dirname(os.path.abspath(__file__))

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
PM_PORT = 3935
# For scripts that run rsockd in another way: words before rsockd's command, and configuration keys
# that a scenario may override.
UNDER, DEFAULTS = [], {}


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True, stdin=subprocess.DEVNULL)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Namespace:
    """Sockets made inside the block belong to that namespace."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY)
        self.enter(f"/run/netns/{self.name}")

    def __exit__(self, *_):
        self.set(self.home)
        os.close(self.home)

    def enter(self, path):
        fd = os.open(path, os.O_RDONLY)
        self.set(fd)
        os.close(fd)

    def set(self, fd):
        if LIBC.setns(fd, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


class Host(Daemon):
    def __init__(self, lab, number):
        self.lab, self.t, self.number = lab, lab.t, number
        self.ns = f"{lab.prefix}h{number}"
        self.ip, self.ip6 = f"10.77.0.{number}", f"fd77::{number}"
        self.control = self.t.path(f"control{number}.sock")
        self.state = self.t.path(f"state{number}")
        self.local = self.t.path(f"local{number}.sock")
        local.HERE.setdefault(self.local, self.inside)
        self.daemon = None
        self.binary = os.path.join(self.t.bin, "rsockd")
        self.config = {}

    def inside(self):
        return Namespace(self.ns)

    def add_address(self, address):
        ip("-n", self.ns, "address", "add", f"{address}/{128 if ':' in address else 32}", "dev",
           "lan", "nodad"
           if ":" in address else "scope", *(() if ":" in address else ("global",)))

    def run(self, argv, *, preload=False, user=None, env=None, within=(), **options):
        """Starts a program in the host's namespace. user: a number; preload: with librsock; within:
        words before the program that start it.
        """
        words = ["ip", "netns", "exec", self.ns, *within]
        if user is not None:
            words += ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"]
        if preload:  # for the program only, not for those that start it
            words += ["env", *(f"{key}={value}"
                               for key, value in {**self.lab.preloading(), **(env or {})}.items())]
            env = None
        proc = self.t.spawn([*words, *argv], preload=False, env=env, **options)
        proc.preloaded = preload
        return proc

    def peer(self, *, user=None, **options):
        return Peer(self, user, options)

    # ---- rsockd ----
    def write_config(self, **config):
        """Writes rsockd.conf with these keys; JSON is YAML."""
        os.makedirs(self.state, exist_ok=True)
        self.config = {"control": self.control, "local": self.local, "state": self.state,
                       "node": f"host{self.number}",
                       **DEFAULTS, **config}
        path = self.t.path(f"rsockd{self.number}.conf")
        with open(path, "w") as file:
            json.dump(self.config, file, indent=1)
        return path

    def start(self, **config):
        self.write_config(**config)
        self.restart()
        return self

    def restart(self):
        path = self.t.path(f"rsockd{self.number}.conf")
        self.daemon = self.run([*UNDER, self.binary, "-c", path],
                               name=f"rsockd{self.number}")
        self.await_daemon()

    def await_daemon(self):
        def answers():
            if self.daemon.popen.poll() is not None:
                raise Failure(f"rsockd of host {self.number} ended: {self.daemon.err()}")
            try:
                return self.get("/v1/status")["pid"] == self.daemon.pid
            except OSError:
                return False
        self.t.until(answers, 20, f"rsockd of host {self.number} to answer")

    def ask(self, method, path, body=None, timeout=60):
        """Status and body of an HTTP request; the body is decoded if it is JSON."""
        connection = UnixConnection(self.control, timeout)
        connection.request(method, path, json.dumps(body) if body is not None else None)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return (answer.status,
                json.loads(text) if answer.headers["Content-Type"] == "application/json" else text)


class Peer:
    """A preloaded program that executes orders (prog/peer.py)."""

    def __init__(self, host, user, options):
        self.t, self.host = host.t, host
        env = {"RSOCK_DAEMON": host.local, **options.pop("env", {})}
        self.proc = host.run(["/usr/bin/python3", "-B",
                              host.lab.reachable(os.path.join(HERE, "prog", "peer.py"))],
                             name=f"peer{user or ''}", user=user, env=env, stdin="pipe",
                             stdout="pipe",
                             **{"preload": bool(self.t.library), **options})
        self.pid = self.hear()["pid"]
        self.t.seen_pids.add(self.pid)

    def tell(self, do, **order):
        self.proc.stdin.write(json.dumps({"do": do, **order}).encode() + b"\n")

    def hear(self, seconds=60):
        line, deadline = b"", time.monotonic() + seconds
        ready = select.poll()
        ready.register(self.proc.stdout, select.POLLIN)
        while not line.endswith(b"\n"):
            if not ready.poll(max(0, deadline - time.monotonic()) * 1000):
                raise Failure(
                    f"{self.proc.describe()}: no answer in {seconds} s: {self.proc.err()}")
            part = self.proc.stdout.read(1 << 16)
            if not part:
                raise Failure(f"{self.proc.describe()}: ended: {self.proc.err()}")
            line += part
        answer = json.loads(line)
        if "error" in answer:
            raise Failure(f"{self.proc.describe()}: {answer['error']}")
        return answer

    def do(self, do, seconds=60, **order):
        self.tell(do, **order)
        return self.hear(seconds)

    def both(self, other, mine, theirs, seconds=60):
        """Gives two peers their orders at the same time, and returns both answers."""
        self.tell(**mine)
        other.tell(**theirs)
        return self.hear(seconds), other.hear(seconds)

    def connect(self, server, group="s", n=1, port=None, to=None):
        """Connects n streams to a server that listens there; the group has the same name at both
        ends.
        """
        return self.both(server, {"do": "connect", "group": group,
                                  "to": [to or server.host.ip, port or server.port],
                                  "n": n},
                         {"do": "accept", "of": f"l{port or server.port}", "group": group, "n": n})

    def ping(self, server, group="s", rounds=20, **more):
        return self.both(server, {"do": "ping", "group": group, "rounds": rounds, **more},
                         {"do": "pong", "group": group, "rounds": rounds})

    def exchange(self, server, size, group="s"):
        return self.both(server, {"do": "exchange", "group": group, "mine": "a", "theirs": "b",
                                  "size": size},
                         {"do": "exchange", "group": group, "mine": "b", "theirs": "a",
                          "size": size})

    def listen(self, port=0, at=None, **more):
        self.port = self.do("listen", group=f"l{port}", at=[at or "0.0.0.0", port],
                            **more)["port"]
        return self


class Lab:
    def __init__(self, t, hosts):
        self.t = t
        # For users other than the one that runs the test.
        t.stats.words.append("--all")
        os.chmod(t.tmp, 0o755)
        os.chmod(t.path("stat"), 0o1777)
        with open(t.log_path, "a"):
            os.chmod(t.log_path, 0o666)
        self.prefix = f"rsk{os.getpid()}"
        self.made = []
        atexit.register(self.remove)
        self.wire_ns = self.make_namespace("wire")
        self.hosts = [self.make_host(number) for number in range(1, hosts + 1)]
        self.wire = self.t.spawn(["ip", "netns", "exec", self.wire_ns, "/usr/bin/python3", "-B",
                                  os.path.join(HERE, "prog", "wire.py"),
                                  *(f"p{host.number}" for host in self.hosts)],
                                 name="wire", preload=False, stdin="pipe", stdout="pipe")
        self.heard()

    def reachable(self, path):
        """A copy that every user can read."""
        copy = self.t.path(os.path.basename(path))
        if not os.path.exists(copy):
            shutil.copy(path, copy)
            os.chmod(copy, 0o755)
        return copy

    def preloading(self):
        """The environment of a preloaded program."""
        libraries = [self.reachable(path) if "librsock" in path else path
                     for path in self.t.library.split(":")]
        env = self.t.environment(True, None, f"host-{len(self.t.procs):02d}")
        return {"LD_PRELOAD": ":".join(libraries), **{key: env[key] for key in (
            "RSOCK_STAT_FILE", "RSOCK_LOG", "RSOCK_LOG_FILE")}}

    def make_namespace(self, name):
        name = self.prefix + name
        ip("netns", "add", name)
        self.made.append(name)
        ip("-n", name, "link", "set", "lo", "up")
        return name

    def make_host(self, number):
        host = Host(self, number)
        self.make_namespace(f"h{number}")
        ip("-n", self.wire_ns, "link", "add", f"p{number}", "type", "veth", "peer", "name", "lan",
           "netns", host.ns)
        ip("-n", self.wire_ns, "link", "set", f"p{number}", "up")
        # A wire carries single datagrams, not runs of them that a device has to split.
        ip("-n", host.ns, "link", "set", "lan", "gso_max_segs", "1")
        ip("-n", host.ns, "link", "set", "lan", "up")
        ip("-n", host.ns, "address", "add", f"{host.ip}/24", "dev", "lan")
        ip("-n", host.ns, "address", "add", f"{host.ip6}/64", "dev", "lan", "nodad")
        return host

    def heard(self):
        line = self.wire.stdout.readline().decode().split()
        if not line or line[0] != "ok":
            raise Failure(f"the wire said {line}: {self.wire.err()}")
        return dict(zip(line[1::2], map(int, line[2::2])))

    def make_wire(self, lose=0, twice=0, late=0, slow_ms=None, cut=()):
        """Sets the wire's faults: in percent; the hosts that are slow, and by how many ms; and the
        pairs of hosts between which nothing is carried. Returns the counts of faults so far.
        """
        slow = ",".join(f"{host.number}:{ms}" for host, ms in (slow_ms or {}).items()) or "-"
        pairs = ",".join(f"{one.number}-{other.number}" for one, other in cut) or "-"
        self.wire.stdin.write(
            f"lose {lose} twice {twice} late {late} slow {slow} cut {pairs}\n".encode())
        return self.heard()

    def remove(self):
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], check=False, stdin=subprocess.DEVNULL)
        self.made = []
