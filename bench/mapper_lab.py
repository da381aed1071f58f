"""Shared by the port mapper's measurements: a daemon with its configuration, and hosts as network
namespaces."""
import atexit
import json
import os
import pathlib
import signal
import socket
import subprocess

from lib.processes import Failure, dies_with_parent, until
from stages import BUILD

BIN = BUILD / "bin"
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def run(*argv):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"{argv[0]}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def free_udp_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cpu_s(pid):
    """Its processor time in user mode, and in the kernel."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) / TICKS, int(fields[12]) / TICKS


class Echo:
    """pmecho: the socket calls of the daemon alone."""

    def __init__(self):
        self.port = free_udp_port()
        self.popen = subprocess.Popen([str(BIN / "pmecho"), "127.0.0.1", str(self.port)],
                                      stdout=subprocess.PIPE,
                                      preexec_fn=dies_with_parent(signal.SIGTERM))
        if not self.popen.stdout.readline():
            raise Failure("pmecho does not run")

    def end(self):
        self.popen.terminate()
        self.popen.wait(10)
        self.popen.stdout.close()


class Daemon:
    """rsockd with the given configuration keys; @inside: words put before the command, to run it in
    another namespace."""

    def __init__(self, folder, inside=(), name="rsockd", **config):
        self.control = pathlib.Path(folder) / f"{name}.sock"
        path = pathlib.Path(folder) / f"{name}.conf"
        path.write_text(json.dumps({"control": str(self.control), "local": f"{folder}/{name}.local",
                                    **config}))
        self.popen = subprocess.Popen([*inside, str(BIN / "rsockd"), "-c", str(path)],
                                      preexec_fn=dies_with_parent(signal.SIGTERM))
        until(self.answers, 10, "rsockd to answer")

    def answers(self):
        """True once all of its sockets exist."""
        if self.popen.poll() is not None:
            raise Failure(f"rsockd ended with {self.popen.returncode}")
        with socket.socket(socket.AF_UNIX) as control:
            try:
                control.connect(str(self.control))
                control.sendall(b"GET /v1/status HTTP/1.0\r\n\r\n")
                return bool(control.recv(1))
            except (FileNotFoundError, ConnectionError):
                return False

    def cpu_s(self):
        return sum(cpu_s(self.popen.pid))

    def bytes(self):
        return int(pathlib.Path(f"/proc/{self.popen.pid}/statm").read_text().split()[1]) * PAGE

    def end(self):
        self.popen.terminate()
        self.popen.wait(10)


class Host:
    def __init__(self, name, address):
        self.ns, self.address = name, address
        self.inside = ("ip", "netns", "exec", name)


def two_hosts():
    """Two hosts connected by a veth pair. They are removed when the program ends."""
    if os.geteuid() != 0:
        raise Failure("network namespaces need root")
    prefix = f"rskbench{os.getpid()}"
    hosts = [Host(f"{prefix}{letter}", f"10.77.0.{number}")
             for number, letter in ((1, "a"), (2, "b"))]

    def remove():
        for host in hosts:
            subprocess.run(["ip", "netns", "del", host.ns], check=False, stderr=subprocess.DEVNULL)

    def ip(*words):
        if subprocess.run(["ip", *words], check=False).returncode != 0:
            raise Failure(f"ip {' '.join(words)}")

    atexit.register(remove)
    for host in hosts:
        ip("netns", "add", host.ns)
        ip("-n", host.ns, "link", "set", "lo", "up")
    ip("-n", hosts[0].ns, "link", "add", "lan", "type", "veth", "peer", "name", "lan", "netns",
       hosts[1].ns)
    for host in hosts:
        ip("-n", host.ns, "link", "set", "lan", "up")
        ip("-n", host.ns, "address", "add", f"{host.address}/24", "dev", "lan")
    return hosts
