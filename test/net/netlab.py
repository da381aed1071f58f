"""Hosts as network namespaces, on one wire that can be made a bad one, each with its own rsockd if it wants one.

A host is 10.77.0.N and fd77::N; further addresses can be added. All of it is made by the case and goes with it.
"""
import atexit
import ctypes
import http.client
import json
import os
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "real"))
from harness import Failure  # noqa: E402

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
PM_PORT = 3935


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
    """Sockets made inside the block are of that namespace."""

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


class Host:
    def __init__(self, lab, number):
        self.lab, self.t, self.number = lab, lab.t, number
        self.ns = f"{lab.prefix}h{number}"
        self.ip, self.ip6 = f"10.77.0.{number}", f"fd77::{number}"
        self.control = self.t.path(f"control{number}.sock")
        self.daemon = None
        self.config = {}

    def inside(self):
        return Namespace(self.ns)

    def add_address(self, address):
        ip("-n", self.ns, "address", "add", f"{address}/{128 if ':' in address else 32}", "dev", "lan", "nodad"
           if ":" in address else "scope", *(() if ":" in address else ("global",)))

    def run(self, argv, **options):
        """Start a program in the host's namespace."""
        return self.t.spawn(["ip", "netns", "exec", self.ns, *argv], preload=False, **options)

    # ---- rsockd ----
    def write_config(self, **config):
        """Keys of rsockd.conf; JSON is YAML."""
        self.config = {"control": self.control, "node": f"host{self.number}", **config}
        path = self.t.path(f"rsockd{self.number}.conf")
        with open(path, "w") as file:
            json.dump(self.config, file, indent=1)
        return path

    def start(self, **config):
        path = self.write_config(**config)
        self.daemon = self.run([os.path.join(self.t.bin, "rsockd"), "-c", path], name=f"rsockd{self.number}")
        self.await_daemon()
        return self

    def restart(self):
        path = self.t.path(f"rsockd{self.number}.conf")
        self.daemon = self.run([os.path.join(self.t.bin, "rsockd"), "-c", path], name=f"rsockd{self.number}")
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
        """Status and body, decoded if it is JSON."""
        connection = UnixConnection(self.control, timeout)
        connection.request(method, path, json.dumps(body) if body is not None else None)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, json.loads(text) if answer.headers["Content-Type"] == "application/json" else text

    def get(self, path):
        status, body = self.ask("GET", path)
        self.t.equal(status, 200, f"GET {path} of host {self.number}")
        return body

    def post(self, path, body, status=200):
        got, answer = self.ask("POST", path, body)
        self.t.equal(got, status, f"POST {path} {body} of host {self.number} ({answer})")
        return answer

    def map(self, to, port, **more):
        """Asks, as a PM client, for the RDMA address of a service."""
        return self.post("/v1/map", {"ip": to.ip if isinstance(to, Host) else to, "port": port, **more})

    def counts(self, machine="pmsp"):
        return self.get("/v1/status")[machine]

    def device(self, name):
        return next(device for device in self.get("/v1/devices")["devices"] if device["name"] == name)


class Lab:
    def __init__(self, t, hosts):
        self.t = t
        self.prefix = f"rsk{os.getpid()}"
        self.made = []
        atexit.register(self.remove)
        self.wire_ns = self.make_namespace("wire")
        self.hosts = [self.make_host(number) for number in range(1, hosts + 1)]
        self.wire = self.t.spawn(["ip", "netns", "exec", self.wire_ns, "/usr/bin/python3", "-B",
                                  os.path.join(HERE, "prog", "wire.py"), *(f"p{host.number}" for host in self.hosts)],
                                 name="wire", preload=False, stdin="pipe", stdout="pipe")
        self.heard()

    def make_namespace(self, name):
        name = self.prefix + name
        ip("netns", "add", name)
        self.made.append(name)
        ip("-n", name, "link", "set", "lo", "up")
        return name

    def make_host(self, number):
        host = Host(self, number)
        self.make_namespace(f"h{number}")
        ip("-n", self.wire_ns, "link", "add", f"p{number}", "type", "veth", "peer", "name", "lan", "netns", host.ns)
        ip("-n", self.wire_ns, "link", "set", f"p{number}", "up")
        ip("-n", host.ns, "link", "set", "lan", "up")
        ip("-n", host.ns, "address", "add", f"{host.ip}/24", "dev", "lan")
        ip("-n", host.ns, "address", "add", f"{host.ip6}/64", "dev", "lan", "nodad")
        return host

    def heard(self):
        line = self.wire.stdout.readline().decode().split()
        if not line or line[0] != "ok":
            raise Failure(f"the wire said {line}: {self.wire.err()}")
        return dict(zip(line[1::2], map(int, line[2::2])))

    def make_wire(self, lose=0, twice=0, late=0):
        """From now on so many of 100 frames; returns how many it did so far."""
        self.wire.stdin.write(f"lose {lose} twice {twice} late {late}\n".encode())
        return self.heard()

    def remove(self):
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], check=False, stdin=subprocess.DEVNULL)
        self.made = []
