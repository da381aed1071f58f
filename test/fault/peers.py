"""Controls bin/fault_peer (peer.c): orders by lines, answers with deadlines, progress read from
shared memory. The fault_*.py scripts use it.
"""
import json
import mmap
import os
import random
import select
import signal
import struct
import subprocess
import time

from lib.harness import LIBC, Failure

IOS = ("block", "poll", "epoll", "edge")
MS_REC_PRIVATE = 0x4000 | 0x40000
CLONE_NEWNS = 0x20000


def private_shm(options="size=64m"):
    """Mounts a new, private /dev/shm for this process and its children."""
    if LIBC.unshare(CLONE_NEWNS) or LIBC.mount(b"none", b"/", None, MS_REC_PRIVATE, None):
        raise Failure("needs the right to make a mount namespace (run as root)")
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", "/dev/shm"], check=True)


class Peer:
    """One end, in a process of its own."""

    def __init__(self, test, name, preload=True):
        self.test = test
        if not os.path.exists(os.path.join(test.bin, "fault_peer")):
            raise Failure("set RSOCK_TEST_BIN to the folder of fault_peer (<build>/bin)")
        path = test.path(f"progress-{len(test.procs)}")
        self.proc = test.spawn([os.path.join(test.bin, "fault_peer"), path], name=name,
                               stdin="pipe", stdout="pipe",
                               preload=preload)
        self.pid = self.proc.pid
        self.buffer = b""
        with open(path, "ab+") as file:
            file.truncate(32)
            self.map = mmap.mmap(file.fileno(), 32, prot=mmap.PROT_READ)

    def order(self, *words):
        self.proc.stdin.write((" ".join(map(str, words)) + "\n").encode())

    def answer(self, wanted, seconds=20):
        """The next line; it must start with wanted."""
        deadline = time.monotonic() + seconds
        fd = self.proc.stdout.fileno()
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([fd], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise Failure(f"{self.proc.describe()}: no answer '{wanted}' within {seconds} s; "
                              f"(sent, trying, received) = {self.progress()}")
            data = os.read(fd, 65536)
            if not data:
                raise Failure(f"{self.proc.describe()}: ended instead of answering '{wanted}'")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        line = line.decode()
        if not line.startswith(wanted):
            raise Failure(f"{self.proc.describe()}: answered '{line}', not '{wanted}'")
        return line

    def ask(self, wanted, *words, seconds=20):
        self.order(*words)
        return self.answer(wanted, seconds)

    def flow(self, io, tx, rx, chunk=65536, fin=0):
        self.order("flow", io, tx, rx, chunk, fin)

    def result(self, seconds=30):
        """The result of the flow in progress; wrong bytes are a failure in every case."""
        result = json.loads(self.answer("{", seconds))
        if result["wrong_at"] >= 0:
            raise Failure(f"{self.proc.describe()}: wrong byte at position {result['wrong_at']}: "
                          f"{result}")
        return result

    def progress(self):
        return struct.unpack("QQQ", self.map[:24])

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        self.proc.expected_signals.add(signal.SIGKILL)
        self.proc.popen.wait(timeout=10)
        self.forget()

    def finish(self, word="end", seconds=10):
        """Lets the program end by itself; its status must be 0."""
        self.order(word)
        self.test.wait(self.proc, seconds)
        self.forget()

    def forget(self):
        for file in (self.proc.stdin, self.proc.stdout):
            file.close()

    def holdings(self):
        """What the process holds: fds, threads, mappings of shared memory, all mappings."""
        with open(f"/proc/{self.pid}/maps") as file:
            maps = file.readlines()
        return {"fds": len(os.listdir(f"/proc/{self.pid}/fd")),
                "threads": len(os.listdir(f"/proc/{self.pid}/task")),
                "memfd mappings": sum("memfd:" in line or "/dev/shm/" in line for line in maps),
                "mappings": len(maps)}


def connect(server, client, port, seed, *source):
    """Connects two peers, of which the server listens already; returns the client's port."""
    server.order("accept", seed)
    words = client.ask("connected", "connect", port, seed, *source).split()
    server.answer("connected")
    return int(words[1])


def pair(test, name="peer"):
    """A new pair of processes with a connection between them."""
    server, client = Peer(test, name + "-server"), Peer(test, name + "-client")
    port = test.free_port()
    server.ask("listening", "listen", port)
    connect(server, client, port, random.getrandbits(40))
    return server, client, port


def both_ways(one, other, up, down, chunk=16384, fin=0, ios=("block", "block"), seconds=30):
    """Moves up bytes from one to other and down bytes back; all must arrive."""
    one.flow(ios[0], up, down, chunk, fin)
    other.flow(ios[1], down, up, chunk, fin)
    return one.result(seconds), other.result(seconds)


def warm(one, other, messages=400):
    """Sends messages back and forth, in turns, so that the stream earns its promotion."""
    for _ in range(messages // 100):
        both_ways(one, other, 200_000, 200_000, chunk=2000)
