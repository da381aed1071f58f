#!/usr/bin/python3
"""A hostile peer on another host. It was admitted as any other (its module is lib/libtraitor.so,
test/rdma/prog/traitor.c); then it does, by its rail and over its control connection, what is
forbidden. The server's process has another link, to another process: that stream must stay on the
ring with right contents, whatever the hostile peer does.
"""
import sys

from hosts import FIRM, configuration, hosts, serve
from lib.harness import Failure
from rdmalab import ROOT, SCALE, case, lab, main

PYTHON = "/usr/bin/python3"
FOLDER = "/run/traitor"
SAYS = FOLDER + "/{}.says"
ORDERS = FOLDER + "/{}.orders"
PIDS = 10_000_000  # GuestStats adds a multiple of this to the pids of a guest

# An echo server with a thread for each connection: the end of one connection does not affect
# another.
SERVING = """
import socket, sys, threading
s = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=64)
def serve(c):
    try:
        while data := c.recv(65536):
            c.sendall(data)
    except OSError as error:
        print(error, file=sys.stderr, flush=True)
    c.close()
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""

# For each line it reads, it sends so many bytes, and checks those that come back. It prints
# "right", or the error of the connection.
ASKING = """
import os, socket, sys
c = socket.create_connection((sys.argv[1], int(sys.argv[2])), 120)
for line in sys.stdin:
    try:
        for i in range(20):
            data = os.urandom(3000 + i)
            c.sendall(data)
            got = b""
            while len(got) < len(data):
                part = c.recv(65536)
                if not part:
                    raise OSError("end")
                got += part
            if got != data:
                raise OSError("wrong")
        print("right", flush=True)
    except OSError as error:
        print(error, flush=True)
"""


class Asking:
    """A client of the server, with a link of its own."""

    count = 0

    def __init__(self, t, port, env=None):
        a, b = lab(t).guests
        Asking.count += 1
        self.t, self.port, self.guest, self.name = t, port, a, str(Asking.count)
        self.handle = a.start([PYTHON, "-c", ASKING, b.ip, port], preload=True, stdin="pipe",
                              stdout="pipe", env={
            "LD_PRELOAD": f"{FOLDER}/librsock.so",
                                  "TRAITOR_MODULE": f"{ROOT}/lib/librsock-verbs.so",
            "TRAITOR_SAYS": SAYS.format(self.name), "TRAITOR_ORDERS": ORDERS.format(self.name),
                                  **FIRM, **(env or {})})

    def ask(self):
        self.handle.send("x\n")
        return self.handle.readline(60 * SCALE)

    def ends(self):
        """[server's record, client's] of its stream; {} for an end without one."""
        self.t.stats.sample()
        for ours in self.t.stats.of_port(self.port, "client"):
            if ours.pid % PIDS == self.handle.pid:
                theirs = [s.record for s in self.t.stats.of_port(self.port, "server")
                          if s.peer == ours.local]
                return [theirs[-1] if theirs else {}, ours.record]
        return [{}, {}]

    def direct(self):
        return all(record.get(way) == "ring" for record in self.ends() for way in ("tx", "rx"))

    def earn(self, seconds=60):
        def tried():
            self.t.equal(self.ask(), "right", f"client {self.name}")
            return self.direct()
        try:
            self.guest.until(tried, seconds, "the stream to be promoted")
        except Failure as failure:
            raise Failure(f"{failure}: {self.ends()}") from None
        return self

    def said(self):
        """What its module has learned: {kind: (address, bytes, key)}, the newest of each kind; and
        all its lines.
        """
        lines = self.guest.sh(f"cat {SAYS.format(self.name)}").splitlines()
        return {line.split()[0]: [int(word, 16) for word in line.split()[1:]]
                for line in lines if line.startswith(("ring ", "ctl ", "indirect "))}, lines

    def order(self, *words):
        """Gives its progress thread an order, and waits until it is done."""
        did = f"did {words[0]}"
        before = self.said()[1].count(did)
        self.guest.write(ORDERS.format(self.name), " ".join(f"{word:x}" if isinstance(word, int)
                                                            else word for word in words) + "\n")
        self.guest.until(lambda: self.said()[1].count(did) > before or "no rail" in self.said()[1],
                         10 * SCALE, did)

    def kill(self):
        self.handle.kill()
        self.handle.wait()


class Scene:
    """A server, and a client that is not hostile."""

    def __init__(self, t):
        a, b = hosts(t)
        a.sh(f"mkdir -p {FOLDER}; ln -sf {ROOT}/lib/librsock.so {FOLDER}/librsock.so; rm -f "
             f"{FOLDER}/*.says {FOLDER}/*.orders;"
             f"ln -sf {ROOT}/lib/libtraitor.so {FOLDER}/librsock-verbs.so")
        self.t, self.port = t, t.free_port()
        self.server = b.start([PYTHON, "-c", SERVING, b.ip, self.port], preload=True, env=FIRM)
        b.listening(self.port, 60, self.server)
        self.good = self.client()
        self.links = self.link(self.good)

    def client(self):
        return Asking(self.t, self.port).earn()

    def link(self, client):
        return [record.get("link") for record in client.ends()]

    def unharmed(self, deed):
        """Checks that the server is there, and that its other client's stream is as it was."""
        self.t.check(self.server.running(), f"{deed}: the server is gone: {self.server.describe()}")
        for _ in range(2):
            self.t.equal(self.good.ask(), "right", f"{deed}: the other client")
        for record in self.good.ends():
            self.t.equal((record.get("tx"), record.get("rx"), record.get("demotions")),
                         ("ring", "ring", 0), f"{deed}: {record}")
        self.t.equal(self.link(self.good), self.links, f"{deed}: the other one's link")

    def threads(self):
        """{thread: processor time in ticks} of the server."""
        found = {}
        for line in lab(self.t)[2].sh(f"cat /proc/{self.server.pid}/task/*/stat").splitlines():
            fields = line.rsplit(")", 1)[1].split()
            found[line.split()[0]] = int(fields[11]) + int(fields[12])
        return found

    def idle(self, deed):
        """The hostile client is dead: its thread in the server ends, and all other threads of the
        server sleep.
        """
        guest = lab(self.t)[2]
        guest.until(lambda: len(self.threads()) <= 3, 3 * SCALE,
                    f"{deed}: the thread of one that is dead to end")
        self.rests(deed)

    def rests(self, deed):
        """Checks that the server's threads, while no client sends, use at most a tenth of a
        processor.
        """
        before = self.threads()
        lab(self.t)[2].sh("sleep 4")
        now = self.threads()
        self.t.check(sum(now.values()) - sum(before.values()) < 40, f"{deed}: {before} -> {now}")

    def ended(self, bad, deed):
        """Waits until the server's end of the hostile stream reports the end of its link, or the
        connection is over.
        """
        def told():
            record = bad.ends()[0]
            return any(entry["cause"] in ("link-broken", "peer-dead")
                       for entry in record.get("history", [])) or not record.get("open", True)
        try:
            lab(self.t)[2].until(told, 3 * SCALE, f"{deed}: its own link to end")
        except Failure as failure:
            raise Failure(f"{failure}: {bad.ends()}; it said {bad.said()[1]}") from None

    def finish(self):
        self.unharmed("at the end")
        self.good.kill()
        self.server.kill()
        self.server.wait()


def deeds(t, orders, for_good=False):
    """orders: (name, function) for one client each; the function makes the order from what the
    client and the other client have learned. for_good: the link ends, not only its rail, so the
    stream goes on by TCP, and its record says so.
    """
    scene = Scene(t)
    other = scene.good.said()[0]
    for name, words in orders:
        bad = scene.client()
        scene.unharmed("before " + name)
        bad.order(*words(bad.said()[0], other))
        bad.ask()  # the result does not matter
        scene.ended(bad, name)
        if for_good:
            t.equal([record.get("tx") for record in bad.ends()], ["tcp", "tcp"],
                    f"{name}: {bad.ends()}")
        scene.unharmed(name)
        print(name, flush=True)
        bad.kill()
        scene.idle(name)
    scene.finish()


def others(kind):
    return lambda word, cut=None: lambda own, other: (word, other[kind][0], cut
                                                      or min(other[kind][1], 4096), other[kind][2])


@case(400)
def others_keys(t):
    """Address and remote key of another process's memory are right, and still give no access."""
    deeds(t, [("into another one's ring", others("ring")("write")),
              ("an atomic operation on another one's control blocks", others("ctl")("add", 8))])


@case(600)
def wrong_places(t):
    """Keys and addresses that belong to another link, or to nothing; memory that may not be read.
    """
    deeds(t, [("into another one's control blocks", others("ctl")("write")),
              ("into another one's indirect buffer", others("indirect")("notice")),
              ("a read of another one's ring", others("ring")("read")),
              ("beyond its ring's end", lambda own, other: ("write",
                                                            own["ring"][0] + own["ring"][1] - 64,
                                                            512, own["ring"][2])),
              ("before its ring",
               lambda own, other: ("write", own["ring"][0] - 64, 512, own["ring"][2])),
              ("with no key", lambda own, other: ("write", own["ring"][0], 512, 0x01020304)),
              ("a read of its indirect buffer",
               lambda own, other: ("read", own["indirect"][0], 512, own["indirect"][2]))])


@case(600)
def notices(t):
    """Immediates without a meaning, and messages that are none."""
    deeds(t, [(f"immediate {value:#x}", lambda own, other, value=value: ("imm", value))
              for value in (257 << 15, 3 << 24, 1 << 31, 4 << 15 | 1 << 24)] +
             [(f"a message of {size} bytes", lambda own, other, size=size: ("send", size))
              for size in (0, 200)])


@case(600)
def control_messages(t):
    """Over the control connection: messages that are none, or of a kind that must not come when a
    link is up, and mere bytes. The link ends.
    """
    deeds(t, [(f"messages from {name}", lambda own, other, kind=kind: ("control", 7, 60, kind))
              for name, kind in
              (("HELLO", 1), ("WELCOME", 2), ("REFUSED", 3), ("any", 0xff))] +
             [("2000 bytes", lambda own, other: ("bytes", 7, 2000))], for_good=True)


@case(900)
def noise_over_control(t):
    """Messages of each kind that a link has, and of all kinds, in bounds but random. The hostile
    peer's link may survive them; all others must.
    """
    scene = Scene(t)
    for kind in [*range(4, 16), 0, 0, 0]:
        bad = scene.client()
        bad.order("control", kind + 1, 60, kind)
        bad.handle.send("x\n")  # it may wait for ever
        scene.unharmed(f"kind {kind}")
        print(kind, [{key: record.get(key) for key in ("tx", "rx", "reason")}
                     for record in bad.ends()], flush=True)
        bad.kill()
        scene.idle(f"kind {kind}")
        scene.unharmed(f"kind {kind}, later")
    scene.finish()


@case(600)
def messages_by_rail(t):
    """The same by the rail; the progress thread takes messages of the kinds that a rail carries.
    The hostile link may survive, the others must.
    """
    scene = Scene(t)
    for seed in range(4):
        bad = scene.client()
        for more in range(3):
            bad.order("words", seed * 16 + more, 40)
            scene.unharmed(f"words, {seed}")
        bad.handle.send("x\n")  # it may wait for ever
        bad.kill()
        scene.idle(f"words, {seed}")
        scene.unharmed(f"words, {seed}, later")
    scene.finish()


@case(600)
def slots_out_of_place(t):
    """Random bytes in all memory that it may write to, and its own slots at other places: it harms
    only itself.
    """
    scene = Scene(t)
    for deed, where in (("scribble", "ring"), ("scribble", "ctl"), ("scribble", "indirect"),
                        ("shift", "ring")):
        bad = scene.client()
        for _ in range(3):
            bad.order(deed, *bad.said()[0][where])
            bad.handle.send("x\n")  # it may wait for ever
            scene.unharmed(f"{deed} {where}")
        bad.kill()
        scene.idle(f"{deed} {where}")
        scene.unharmed(f"{deed} {where}, later")
    scene.finish()


@case(400)
def bytes_by_tcp(t):
    """Bytes by TCP of a stream that is on the ring: a thread that waits for the stream sleeps on,
    and its state is no worse when the peer dies.
    """
    scene = Scene(t)
    bad = scene.client()
    bad.order("tcp", 3, 10)
    scene.rests("bytes by TCP")
    scene.unharmed("bytes by TCP")
    bad.kill()
    scene.idle("bytes by TCP")
    scene.finish()


OTHER = "10.9.0.101"


@case(600)
def from_elsewhere(t):
    """The link has to come from the address that the PMReq has named: the TCP connection's own, or
    the mapped one. From any other, also of the same host, it is refused, and its stream stays on
    TCP; both ends say why.
    """
    scene = Scene(t)
    a, b = lab(t).guests
    a.sh(f"ip address add {OTHER}/24 dev eth0")
    for named, other in ((a.ip, OTHER), (OTHER, a.ip)):
        if named == OTHER:
            a.daemon.stop()
            rnic = {**configuration(a)["rnics"][0], "addresses": [OTHER]}
            serve(a, rnics=[rnic])
            scene.client().kill()
        bad = Asking(t, scene.port, {"TRAITOR_FROM": other})

        def refused(bad=bad):
            t.equal(bad.ask(), "right", "by TCP")
            return bad.ends()[0].get("reason") == "other-source"
        try:
            b.until(refused, 60, f"a link from {other} to be refused, named is {named}")
        except Failure as failure:
            raise Failure(f"{failure}: {bad.ends()}") from None
        a.until(lambda bad=bad: bad.ends()[1].get("peer_reason") == "other-source", 20,
                f"the other end to say so: {bad.ends()}")
        for record in bad.ends():
            t.equal((record["promotions"], record["tx_ring_bytes"]), (0, 0), f"by ring: {record}")
        scene.unharmed(f"a link from {other}")
        bad.kill()
    a.sh(f"ip address del {OTHER}/24 dev eth0")
    scene.finish()


@case(600)
def flood(t):
    """As many notices as possible: the other client is served meanwhile, and the flooding one
    afterwards.
    """
    scene = Scene(t)
    bad = scene.client()
    bad.order("flood", 20000)
    scene.unharmed("a flood")
    lab(t)[1].until(lambda: "flooded" in bad.said()[1], 20 * SCALE, "all of it to be sent")
    scene.unharmed("a flood that goes on")
    bad.order("flood", 0)
    t.equal(bad.ask(), "right", "the one that has flooded")
    bad.kill()
    scene.finish()


if __name__ == "__main__":
    sys.exit(main())
