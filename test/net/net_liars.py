#!/usr/bin/python3
"""rsockd against processes that send it nonsense or ask for what is not theirs; and processes
against a program that pretends to be rsockd.
"""
import fcntl
import itertools
import os
import random
import re
import resource
import socket
import struct
import sys
import threading
import time

import local
import segment
from lib.harness import case, main
from net_local import ALICE, BOB, BOTH, MALLORY, PORT, host_with, until_direct, users
from net_rsockd import resident
from netlab import HERE, Lab

# ---- processes ----

def fds_of(host):
    return len(os.listdir(f"/proc/{host.daemon.pid}/fd"))


def still_serves(t, host):
    server, client = users(host, port=t.free_port())
    before = host.streams("direct")
    client.connect(server)
    until_direct(t, host, client, server, before + 2)
    t.kill(client.proc)
    t.kill(server.proc)
    t.until(lambda: host.streams("direct") == before, 10, "the two to be gone")


def tcp_pair(host, uid, other=None):
    with host.inside():
        listener = socket.create_server((host.ip, 0))
        with local.as_user(uid):
            near = socket.create_connection(listener.getsockname())
        with local.as_user(uid if other is None else other):
            far, _address = listener.accept()
        listener.close()
    return near, far


@case(timeout=60)
def nonsense_on_its_socket(t):
    a = host_with(t, vouch=BOTH)
    dice = random.Random(11)
    before = fds_of(a)
    refused = 0
    good = local.pack(local.HELLO)
    wrong = [dice.randbytes(dice.randrange(1, 300)) for _ in range(200)]
    wrong += [good[:n] for n in (1, 64, 127)] + [good + b"x", good + good]
    wrong += [local.pack(kind) for kind in (0, local.LOOKUP, local.LISTEN, local.LOST,
                                            local.RENDEZVOUS, local.ANSWER, local.RESOLVE,
                                            local.LINK, local.UNLINK, local.UNLINK + 1)]
    wrong += [local.pack(local.HELLO, flags=2), local.pack(local.HELLO, reason=200),
              local.pack(local.HELLO, magic=1)]
    ends = {"local_port": 80, "peer_port": 4000, "family": socket.AF_INET}
    segments = [local.pack(local.LOOKUP, **ends, flags=local.BY_SYN | more, link=n << 48)
                for more, n in ((0, 0), (0, 2), (local.CONNECTING, 0), (local.CONNECTING, 5),
                                (local.CONNECTING, 0xFFFF))]
    for data in wrong + segments:
        guest = local.Client(a.local, MALLORY)
        socket.send_fds(guest.socket, [data], [0] * (dice.randrange(20) if data in wrong else 0))
        t.check(guest.gone(), f"{data[:16]!r} was not refused")
        guest.close()
        refused += 1
    t.equal(a.figure("local_refused_total"), refused, "messages refused")
    # An empty message looks like the end of the connection.
    for _ in range(50):
        guest = local.Client(a.local, MALLORY)
        socket.send_fds(guest.socket, [b""], [0] * 10)
        t.check(guest.gone(), "an empty message")
        guest.close()
    t.until(lambda: a.figure("processes") == 0, 10, "all to be gone")
    t.check(fds_of(a) <= before + 2, f"{fds_of(a)} descriptors, {before} before")
    still_serves(t, a)


@case(timeout=120)
def ten_thousand_connections(t):
    """Of one user: half of the places are for others, who are served as before."""
    a = host_with(t, vouch=BOTH)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    guests, gone = [], 0
    for number in range(10000):
        with local.as_user(MALLORY):
            guest = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            guest.connect(a.local)
        guests.append(guest)
        if number % 2500 == 2499:
            still_serves(t, a)
    for guest in guests:
        guest.setblocking(False)
        try:
            gone += guest.recv(1) == b""
        except ConnectionResetError:
            gone += 1
        except BlockingIOError:
            pass
    limit = int(next(line for line in open(f"/proc/{a.daemon.pid}/limits")
                     if line.startswith("Max open files")).split()[3])
    t.equal(a.figure("processes") + gone, 10000,
            "those that are there and those that were sent away")
    t.check(a.figure("processes") <= limit / 4,
            f"{a.figure('processes')} of one user, limit {limit}")
    for guest in guests:
        guest.close()
    t.until(lambda: a.figure("processes") == 0, 20, "all to be gone")


@case(timeout=60)
def who_comes_and_goes_all_the_time(t):
    """Programs that only connect and disconnect: others are served meanwhile."""
    a = host_with(t, vouch=BOTH)
    again = a.run(["/usr/bin/python3", "-c", """
import socket, sys, os
os.fork()
while True:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.setblocking(False)
    try:
        s.connect(sys.argv[1])
    except BlockingIOError:
        pass
    s.close()
""", a.local], user=MALLORY, name="knocker")
    t.until(lambda: a.figure("local_hellos_total") + a.figure("local_refused_total") > 2000, 20,
            "the knocking")
    still_serves(t, a)
    still_serves(t, a)
    t.kill(again)


@case(timeout=60)
def ends_of_others(t):
    """The kernel says whose a connection is; a process that asks for another user's gets nothing,
    and takes nothing from the owner.
    """
    a = host_with(t, vouch=BOTH)
    near, far = tcp_pair(a, ALICE)
    thief, owner = local.Client(a.local, MALLORY), local.Client(a.local, ALICE)
    for guest in (thief, owner):
        guest.say(local.HELLO)
    thief.look_up(near, True)
    answer, _fds = thief.hear()
    t.equal((answer["type"], stat_reason(t, answer)), (local.ANSWER, "not-holder"),
            "another user's connection")
    owner.look_up(near, True, cookie=12345)
    t.equal(stat_reason(t, owner.hear()[0]), "not-holder", "another cookie")
    owner.look_up(near, True, netns=1)
    t.equal(stat_reason(t, owner.hear()[0]), "other-netns", "another network namespace")
    t.equal(a.figure("pending_lookups"), 0, "what waits")
    # Bob asks for his own end of a connection with Alice; Mallory must not answer for it.
    near, far = tcp_pair(a, ALICE, BOB)
    first, bob = local.Client(a.local, ALICE), local.Client(a.local, BOB)
    first.look_up(near, True)
    thief.look_up(far, False)
    t.equal(stat_reason(t, thief.hear()[0]), "not-holder", "one who comes in between")
    bob.look_up(far, False)
    meets = [bob.hear(), first.hear()]
    for (meet, fds), uid in zip(meets, (ALICE, BOB)):
        t.equal((meet["type"], meet["uid"], meet["pid"], len(fds)),
                (local.RENDEZVOUS, uid, os.getpid(), 1), "RENDEZVOUS")
    t.equal(meets[0][0]["link"], meets[1][0]["link"], "name of the link")
    # Both ends say that they connected, and one end is asked for twice.
    near, far = tcp_pair(a, ALICE, BOB)
    first.look_up(near, True)
    bob.look_up(far, True)
    bob.look_up(far, True)
    t.until(lambda: a.figure("pending_lookups") == 2, 10, "two that do not meet")
    bob.look_up(far, False)
    meet, fds = first.hear()
    t.equal((meet["link"], fds), (meets[0][0]["link"], []), "the same link, for the connecting end")
    # One of them reports that the link is lost: the next stream gets another one.
    first.say(local.LOST, link=meet["link"])
    bob.look_up(far, False)
    first.look_up(near, True)
    meet, fds = first.hear()
    t.check(meet["link"] != meets[0][0]["link"] and len(fds) == 1, meet)


def stat_reason(t, answer):
    names = re.findall(r'RSK_REASON\(\w+, "([^"]+)"', open(os.path.join(
        HERE, "..", "..", "include", "rsock", "reason.def")).read())
    return names[answer["reason"]]


MAPPED = next(number for number in range(100) if stat_reason(None, {"reason": number}) == "mapped")


@case(timeout=60)
def statistics_that_are_none(t):
    a = host_with(t, vouch=BOTH)
    size = segment.BYTES
    header = struct.pack("<QIIIIII", segment.MAGIC, segment.VERSION, size, 64, 128,
                         segment.RECORDS, segment.RECORD_BYTES)

    def memfd(bytes_, seals, head=b"", fill=None):
        """fill: every stream is open, for any reason, and its figures are random."""
        fd = os.memfd_create("x", os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, bytes_)
        if fill:
            dice = random.Random(fill)
            os.pwrite(fd, b"\xff" * 2048, 4096 - 2048)
            os.pwrite(fd, dice.randbytes(64 * 128), 4096)
            os.pwrite(fd, b"".join(b"\1\0\0\0" + dice.randbytes(42) + bytes([dice.randrange(60)]) +
                                   dice.randbytes(segment.RECORD_BYTES - 47)
                                   for _ in range(segment.RECORDS)), segment.FIRST_RECORD)
        os.pwrite(fd, head, 0)
        if seals:
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        return fd
    shrink = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
    before = fds_of(a)
    fds = [memfd(size, shrink), memfd(size - 4096, shrink, header),
           memfd(size + 4096, shrink, header),
           memfd(size, 0, header), memfd(0, shrink), memfd(size, shrink, b"x" * 8 + header[8:]),
           memfd(size, shrink, header[:8] + b"\1" + header[9:]), os.pipe()[0],
           os.open("/", os.O_PATH),
           os.open("/dev/zero", os.O_RDONLY), socket.socket().fileno(), os.eventfd(0)]
    guests = []
    for fd in fds:
        guests.append(local.Client(a.local, MALLORY))
        guests[-1].say(local.HELLO, fds=[fd])
    # A descriptor that is neither a memfd nor an eventfd is not even received, and ends the
    # connection.
    t.until(lambda: a.figure("statistics_refused_total") == len(fds), 10, "all to be refused")
    t.until(lambda: a.figure("processes") == len(fds) - 3, 10, "the others to be there")
    t.equal((a.streams(), a.figure("streams_ended_total")), (0, 0), "what they tell")
    # These have the right form, but their contents are random; that must harm no one.
    for number in range(10):
        guests.append(local.Client(a.local, MALLORY))
        fd = memfd(size, shrink, header, fill=number + 1)
        guests[-1].say(local.HELLO, fds=[fd])
        t.until(lambda: a.streams() > 10000, 10, "figures")
        os.pwrite(fd, os.urandom(1 << 20), 4096)
        a.metrics()
        os.pwrite(fd, b"\0" * 4096, 0)
        a.metrics()
        guests.pop().close()
        os.close(fd)
        t.until(lambda: a.figure("processes") == len(fds) - 3 and a.streams() == 0, 10,
                "it to be gone")
    for guest in guests:
        guest.close()
    still_serves(t, a)
    t.until(lambda: a.figure("processes") == 0 and fds_of(a) <= before + 2, 10,
            "descriptors to be closed")


@case(timeout=60)
def wrong_descriptors_are_forgiven(t):
    """A user is ignored after eight of them, as each may block a helper process. As soon as no
    helper runs any more, the user is served again.
    """
    a = host_with(t, vouch=BOTH)
    pipe, _end = os.pipe()
    for number in range(8):
        guest = local.Client(a.local, ALICE)
        guest.say(local.HELLO, fds=[pipe])
        t.check(guest.gone(), f"pipe {number} was received")
        guest.close()

    near, _far = tcp_pair(a, ALICE)

    def is_back():
        guest = local.Client(a.local, ALICE)
        try:
            guest.say(local.HELLO)
            guest.look_up(near, True, netns=1)
            answer, _fds = guest.hear()
        except OSError:
            answer = None
        guest.close()
        return answer is not None
    t.until(is_back, 20, "the user to be served again")
    t.until(lambda: a.figure("processes") == 0, 10, "it to be gone")
    still_serves(t, a)


@case(timeout=120)
def lookups_without_end(t):
    """A client that asks and never reads costs neither others nor memory."""
    a = host_with(t, vouch=BOTH)
    near, _far = tcp_pair(a, MALLORY)
    still_serves(t, a)
    before = resident(a.daemon.pid)
    deaf = local.Client(a.local, MALLORY)
    deaf.socket.setblocking(False)
    asks = [local.pack(local.LOOKUP, **{**local.name_of(near), "cookie": cookie})
            for cookie in (1, None)
            if cookie] + [local.pack(local.LOOKUP, **local.name_of(near)), local.pack(
                local.LISTEN, **{**local.name_of(near), "peer_port": 0}),
                          local.pack(local.LOST, link=9)]
    sent, served = 0, 0
    until = time.monotonic() + 8
    while time.monotonic() < until:
        try:
            for _ in range(100):
                deaf.socket.send(asks[sent % len(asks)])
                sent += 1
        except BlockingIOError:
            pass
        except OSError:  # it was sent away, and comes again
            deaf = local.Client(a.local, MALLORY)
            deaf.socket.setblocking(False)
        if served < 4 and time.monotonic() > until - 8 + 2 * served:
            served += 1
            still_serves(t, a)
    t.check(sent > 2000 and served == 4, f"{sent} sent, {served} served")
    t.check(a.figure("local_put_off_total") > 0, "it was listened to all the time")
    t.check(a.figure("pending_lookups") <= 1, "what waits of one connection")
    grown = resident(a.daemon.pid) - before
    t.check(grown < 4 << 20, f"{grown} bytes more")


@case(timeout=120)
def many_ends_that_wait(t):
    """A process has at most 4096 waiting questions, however many it asks; each takes some hundred
    bytes.
    """
    a = host_with(t)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    before = resident(a.daemon.pid)
    pairs = [tcp_pair(a, MALLORY) for _ in range(min(5000, hard // 2 - 200))]
    guest = local.Client(a.local, MALLORY)
    for near, _far in pairs:
        guest.look_up(near, True)
    t.until(lambda: a.figure("local_lookups_total") == len(pairs), 20, "all to be asked for")
    t.equal(a.figure("pending_lookups"), min(4096, len(pairs)), "ends that wait")
    grown = resident(a.daemon.pid) - before
    t.check(grown < 4096 * 1024, f"{grown} bytes more")
    guest.close()
    t.until(lambda: a.figure("pending_lookups") == 0, 10, "all of it to be gone")


# ---- a program that pretends to be rsockd ----

class Liar:
    """Listens where rsockd would, and calls how(connection, message) for each LOOKUP."""

    def __init__(self, path, how, at_once=None):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path)
        os.chmod(path, 0o666)
        self.listener.listen(100)
        self.how, self.at_once = how, at_once
        self.heard = self.came = 0
        self.given_back = set()  # mappings
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            guest, _address = self.listener.accept()
            self.came += 1
            threading.Thread(target=self.serve, args=(guest,), daemon=True).start()

    def serve(self, guest):
        try:
            if self.at_once:
                self.at_once(guest)
            while True:
                data, fds, _flags, _address = socket.recv_fds(guest, local.BYTES, 4)
                for fd in fds:
                    os.close(fd)
                if not data:
                    break
                message = local.unpack(data)
                if message["type"] == local.LOOKUP:
                    self.heard += 1
                    self.how(guest, message)
                elif message["type"] == local.UNLINK:
                    self.given_back.add(message["link"])
        except OSError:
            pass
        guest.close()


def meet(message, link=77, fds=(), **fields):
    return local.pack(local.RENDEZVOUS, **{**{name: message[name] for name in (
        "flags", "netns", "local", "peer", "local_port", "peer_port", "family", "cookie", "fd")},
                                     "link": link,
        "pid": os.getpid(), "uid": BOB, **fields}), fds


def answer(message, **fields):
    return local.pack(local.ANSWER, **{**{name: message[name] for name in (
        "netns", "local", "peer", "local_port", "peer_port", "family", "cookie", "fd")}, **fields})


def say(guest, message, fds=()):
    socket.send_fds(guest, [message], list(fds))


def a_pipe_to_meet(guest, message):
    for fd in os.pipe():
        say(guest, *meet(message, fds=[fd]))
        os.close(fd)


def half_a_pair(guest, message):
    """RENDEZVOUS with a socket whose other end is closed, silent, or sends nonsense."""
    for number, left in enumerate((b"", b"x", bytes(300), b"R" * 4096)):
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        say(guest, *meet(message, link=100 + number, fds=[theirs.fileno()]))
        if left:
            mine.send(left)
        theirs.close()
        if number != 2:
            mine.close()
        else:
            KEPT.append(mine)


KEPT = []
LIES = {
    "silent": lambda guest, message: None,
    "closes": lambda guest, message: guest.shutdown(socket.SHUT_RDWR),
    "garbage": lambda guest, message: guest.send(os.urandom(128)),
    "short": lambda guest, message: guest.send(b"x"),
    "long": lambda guest, message: guest.send(os.urandom(5000)),
    "empty": lambda guest, message: say(guest, b"", [0, 1, 2]),
    "look_up": lambda guest, message: say(guest, local.pack(local.LOOKUP, **message)),
    "no-fd": lambda guest, message: say(guest, *meet(message)),
    "pipe": a_pipe_to_meet,
    "pid": lambda guest, message: say(guest, *meet(message, pid=0x7FFFFFFF, fds=[guest.fileno()])),
    "half": half_a_pair,
    "other-fd": lambda guest, message: say(guest, *meet(message, fd=message["fd"] + 1)),
    "bad-fd": lambda guest, message: [say(guest, answer(message, fd=fd, reason=3)) for fd in (
        -1, 1 << 30, 0, 2, 99999999, -(1 << 31))],
    "reasons": lambda guest, message: [say(guest, answer(message, reason=reason))
                                       for reason in range(1, 40)],
    "flood": lambda guest, message: [say(guest, answer(message, reason=2)) for _ in range(5000)],
}


def lied_to(t, lie, server, client):
    """All bytes arrive, and the programs survive."""
    (a,) = Lab(t, 1).hosts
    liar = Liar(a.local, LIES[lie])
    one, two = users(a, server, client)
    two.connect(one, n=3)
    for _ in range(20):
        two.ping(one)
    two.exchange(one, 4 << 20)
    if server != client:
        t.until(lambda: two.ping(one) and liar.heard, 20, "a question")
    t.check(liar.came >= 2, f"{liar.came} came")
    two.ping(one, rounds=200)
    t.stats.sample()
    for peer in (one, two):
        t.check(len(os.listdir(f"/proc/{peer.pid}/fd")) < 80,
                f"descriptors: {os.listdir(f'/proc/{peer.pid}/fd')}")
        peer.proc.stdin.close()
        t.wait(peer.proc)
    return liar


def register(lie):
    def to_two_users(t):
        lied_to(t, lie, ALICE, BOB)

    def to_one_user(t):
        """What a process finds by itself needs no rsockd; but it believes rsockd when that says
        that a stream has no other end on this host.
        """
        lied_to(t, lie, ALICE, ALICE)
        if lie not in ("reasons", "flood"):
            t.stats.direct(PORT, to_server=1 << 20, to_client=1 << 20, share=0.3, streams=3)

    for function, name in (to_two_users, "a_liar"), (to_one_user, "one_user_and_a_liar"):
        function.__name__ = f"{name}_{lie.replace('-', '_')}"
        function.__module__ = "__main__"
        case(timeout=60)(function)


@case(timeout=60)
def a_mapping_that_is_of_no_use(t):
    """A mapping that will not be used is given back at once: the stream is gone, or another one has
    its descriptor, or there is no device.

    The answer to the question that was asked comes last: a process whose questions are all answered
    reads no more.
    """
    (a,) = Lab(t, 1).hosts
    promised, links = set(), itertools.count(1)

    def promises(guest, message):
        for fd in (99999, message["fd"] + 1, message["fd"]):
            link = next(links)
            promised.add(link)
            say(guest, answer(message, fd=fd, reason=MAPPED, link=link,
                              ip=socket.inet_aton("10.0.0.9"), port=9, ipv=4))
    liar = Liar(a.local, promises)
    one, two = users(a, ALICE, BOB)
    two.connect(one)
    for _ in range(20):
        two.ping(one)
    t.until(lambda: two.ping(one) and promised and liar.given_back == promised, 20,
            "all to be given back")


@case(timeout=60)
def nobody_accepts(t):
    """A socket whose accept queue is full: no process waits for it."""
    (a,) = Lab(t, 1).hosts
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(a.local)
    os.chmod(a.local, 0o666)
    listener.listen(0)
    began = time.monotonic()
    one, two = users(a)
    two.connect(one, n=3)
    for _ in range(20):
        two.ping(one)
    two.exchange(one, 1 << 20)
    t.check(time.monotonic() - began < 15, "it took too long")


if __name__ == "__main__":
    for name_ in LIES:
        register(name_)
    sys.exit(main())
