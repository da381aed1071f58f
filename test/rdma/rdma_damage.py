#!/usr/bin/python3
"""Slots that are damaged in the receiver's memory after they have landed there: a helper flips a
bit in the segment of a running program. The sender, whose program makes no call meanwhile, puts
the slot again. Contents are right. (A slot that is damaged again and again: unit_rx_repair. Here
the reader would often be faster than the helper.)
"""
import os
import sys

from hosts import FIRM, hosts, on_ring, said, ends
from lib.harness import Failure
from rdmalab import SCALE, case, main

PYTHON = "/usr/bin/python3"

# An echo server for one connection. "blocks": it sleeps in recv(); "epoll": in epoll_wait(), as an
# edge-triggered reader that reads until EAGAIN.
SERVING = """
import select, socket, sys
s = socket.create_server((sys.argv[1], int(sys.argv[2])))
c = s.accept()[0]
e = select.epoll()
if sys.argv[3] == "epoll":
    c.setblocking(False)
    e.register(c, select.EPOLLIN | select.EPOLLET)
def read():
    while True:
        try:
            return c.recv(4096) # so little that the fast path is taken
        except BlockingIOError:
            e.poll()
while data := read():
    c.setblocking(True)
    c.sendall(data)
    c.setblocking(sys.argv[3] != "epoll")
"""

# earn: 20 messages, each of which comes back. send: one message, and no call until the next line;
# two: another one before it. check: what was sent comes back.
ASKING = """
import os, socket, sys
c = socket.create_connection((sys.argv[1], int(sys.argv[2])), 120)
def back(data):
    got = b""
    while len(got) < len(data):
        part = c.recv(65536)
        if not part:
            raise OSError("end")
        got += part
    if got != data:
        raise OSError("wrong")
try:
    for line in sys.stdin:
        word, mark = line.split()
        if word == "earn":
            for i in range(20):
                data = os.urandom(3000 + i)
                c.sendall(data)
                back(data)
        elif word in ("send", "two"):
            first, last = os.urandom(2000), bytes.fromhex(mark) + os.urandom(3000)
            if word == "two":
                c.sendall(first)
            c.sendall(last)
            sent = first + last if word == "two" else last
        else:
            back(sent)
        print("right", flush=True)
except OSError as error:
    print(error, flush=True)
"""

# Finds the mark in the segments of links of a process, and flips a bit so many bytes before it.
HARMING = """
import os, sys, time
pid, mark, before = int(sys.argv[1]), bytes.fromhex(sys.argv[2]), int(sys.argv[3])
def find(memory):
    for line in open(f"/proc/{pid}/maps"):
        if "rsock-link" not in line or "rw" not in line.split()[1]:
            continue
        begin, end = (int(x, 16) for x in line.split()[0].split("-"))
        while begin < end:
            piece = os.pread(memory, min(end - begin, 4 << 20), begin)
            if not piece:
                break
            at = piece.find(mark)
            if at >= 0:
                return begin + at
            begin += len(piece) - len(mark) if len(piece) > len(mark) else end
    return None
memory = os.open(f"/proc/{pid}/mem", os.O_RDWR)
deadline, at = time.monotonic() + 60, None
while at is None and time.monotonic() < deadline:
    at = find(memory)
if at is None:
    sys.exit("the message has not come")
os.pwrite(memory, bytes([os.pread(memory, 1, at - before)[0] ^ 0x10]), at - before)
"""


# Of a slot: where its index is, before the payload.
IN_PAYLOAD, IN_INDEX = 0, 64


class Scene:
    """A stream on the ring, whose server is stopped while a message lands in its ring."""

    def __init__(self, t, how):
        self.t, self.port = t, t.free_port()
        a, self.b = hosts(t)
        self.server = self.b.start([PYTHON, "-c", SERVING, self.b.ip, self.port, how],
                                   preload=True, env=FIRM)
        self.b.listening(self.port, 60, self.server)
        self.client = a.start([PYTHON, "-c", ASKING, self.b.ip, self.port], preload=True,
                              stdin="pipe", stdout="pipe", env=FIRM)
        try:
            self.b.until(self.earned, 60 * SCALE, "the stream to be promoted")
        except Failure as failure:
            raise Failure(f"{failure}: {said(ends(t, self.port))}") from None

    def earned(self):
        self.ask("earn")
        return on_ring(self.t, self.port)

    def ask(self, word, mark="-"):
        self.client.send(f"{word} {mark}\n")
        self.t.equal(self.client.readline(60 * SCALE), "right", f"{word}: the client")

    def harm(self, where, word):
        """A message, whose slot is damaged before the server looks at it."""
        mark = os.urandom(24).hex()
        self.b.sh(f"kill -STOP {self.server.pid}")
        self.ask(word, mark)
        self.b.run([PYTHON, "-c", HARMING, self.server.pid, mark, where], expect=0,
                   timeout=90 * SCALE)
        self.b.sh(f"kill -CONT {self.server.pid}")

    def until(self, condition, what):
        try:
            self.b.until(lambda: condition(*ends(self.t, self.port)), 30 * SCALE, what)
        except Failure as failure:
            raise Failure(f"{failure}: {said(ends(self.t, self.port))}") from None

    def finish(self):
        self.ask("earn")
        self.client.send("", close=True)
        self.client.wait(60 * SCALE)
        self.server.wait(60 * SCALE)


def damaged(t, how, where=IN_PAYLOAD, word="send"):
    scene = Scene(t, how)
    for number in range(1, 4):
        before = [record["rx_ring_bytes"] for record in ends(t, scene.port)]
        scene.harm(where, word)
        # The client makes no call: its progress thread puts the slot again.
        scene.until(lambda server, client, number=number, before=before:
                    client["repairs"] >= number and server["rx_ring_bytes"] > before[0],
                    "the slot to be put again, and taken")
        scene.ask("check")
    for record in ends(t, scene.port):
        t.equal((record["tx"], record["rx"], record["demotions"]), ("ring", "ring", 0),
                f"the stream: {record}")
    t.check(ends(t, scene.port)[0]["hash_retries"] >= 3, "no wrong hash was counted")
    scene.finish()


@case(300)
def once(t):
    """A reader that sleeps in recv()."""
    damaged(t, "blocks")


@case(300)
def once_with_edges(t):
    """A reader that sleeps in epoll_wait(), and waits for an edge."""
    damaged(t, "epoll")


@case(300)
def an_index(t):
    """The slot does not show at all."""
    damaged(t, "epoll", IN_INDEX)


@case(300)
def an_index_behind(t):
    """The slot does not show; a reader has taken the one before it, and goes to sleep in recv()."""
    damaged(t, "blocks", IN_INDEX, "two")


if __name__ == "__main__":
    sys.exit(main())
