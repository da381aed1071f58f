#!/usr/bin/python3
"""Many threads of one process, each asleep on its own stream to another host: all of them hear what
is for them, and a message for one of them does not wake the others.
"""
import sys

from hosts import FIRM, hosts, said
from lib.harness import Failure
from rdmalab import SCALE, case, main

PYTHON = "/usr/bin/python3"

# An echo server with a thread for each connection, which sleeps in recv() or in poll().
SERVING = """
import select, socket, sys, threading
def echo(c):
    waits = select.poll()
    waits.register(c, select.POLLIN)
    while True:
        if sys.argv[4] == "poll":
            waits.poll()
        data = c.recv(4096)
        if not data:
            return
        c.sendall(data)
s = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=int(sys.argv[3]))
for i in range(int(sys.argv[3])):
    threading.Thread(target=echo, args=(s.accept()[0],)).start()
"""

# "all N": N messages on each connection, one connection after the other; "one N": N messages on the
# last one; "some N": N times on a few connections at once. Each message comes back.
ASKING = """
import os, random, socket, sys
cs = [socket.create_connection((sys.argv[1], int(sys.argv[2])), 120)
      for i in range(int(sys.argv[3]))]
def turn(some):
    sent = {c: os.urandom(random.randint(1, 2000)) for c in some}
    for c in some:
        c.sendall(sent[c])
    for c in some:
        got = b""
        while len(got) < len(sent[c]):
            part = c.recv(4096)
            if not part:
                raise OSError("end")
            got += part
        if got != sent[c]:
            raise OSError("wrong")
try:
    for line in sys.stdin:
        word, n = line.split()
        for i in range(int(n)):
            if word == "all":
                for c in cs:
                    turn([c])
            else:
                turn(cs[-1:] if word == "one" else random.sample(cs, random.randint(1, 5)))
        print("done", flush=True)
except OSError as error:
    print(error, flush=True)
"""


class Threads:
    def __init__(self, t, n, how):
        self.t, self.n, self.port = t, n, t.free_port()
        a, self.b = hosts(t)
        env = {**FIRM, "RSOCK_SPIN_US": "0"}
        self.server = self.b.start([PYTHON, "-c", SERVING, self.b.ip, self.port, n, how],
                                   preload=True, env=env)
        self.b.listening(self.port, 60, self.server)
        self.client = a.start([PYTHON, "-c", ASKING, self.b.ip, self.port, n], preload=True,
                              stdin="pipe", stdout="pipe", env=env)
        try:
            self.b.until(self.earned, 120 * SCALE, "all streams to be promoted")
        except Failure as failure:
            raise Failure(f"{failure}: {said(self.records())}") from None

    def records(self):
        return [stream for stream in self.b.stat()["streams"] if stream["pid"] == self.server.pid]

    def does(self, word, n):
        self.client.send(f"{word} {n}\n")
        self.t.equal(self.client.readline(120 * SCALE), "done", f"{word} {n}")

    def earned(self):
        self.does("all", 5)
        paths = [(stream["tx"], stream["rx"]) for stream in self.records()]
        return paths == [("ring", "ring")] * self.n

    def sleeps(self):
        [process] = [process for process in self.b.stat()["processes"]
                     if process["pid"] == self.server.pid]
        return process["sleeps"]

    def end(self):
        self.client.kill()
        self.server.wait(60 * SCALE)


def woken(t, how):
    """Of twelve threads: how many wake-ups for a message to one of them. A wait for room in the
    ring, and credit that comes while the thread sleeps, are wake-ups too.
    """
    threads = Threads(t, 12, how)
    before = threads.sleeps()
    threads.does("one", 300)
    wakes = (threads.sleeps() - before) / 300
    print(f"    {wakes:.2f} wake-ups for a message")
    t.check(0.5 <= wakes <= 2, f"{wakes} wake-ups for a message to one of twelve threads")
    threads.end()


@case(300)
def in_recv(t):
    woken(t, "recv")


@case(300)
def in_poll(t):
    woken(t, "poll")


@case(400)
def more_than_there_are_doorbells(t):
    """Threads beyond those share one. Now few of them have something to do, now many."""
    threads = Threads(t, 70, "recv")
    threads.does("some", 150)
    threads.does("all", 3)
    threads.does("some", 50)
    t.equal({(stream["tx"], stream["rx"]) for stream in threads.records()}, {("ring", "ring")},
            "paths")
    threads.end()


if __name__ == "__main__":
    sys.exit(main())
