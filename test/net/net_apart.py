#!/usr/bin/python3
"""Programs in network namespaces of their own, as containers are, and one rsockd on the host whose
socket they see: streams between them, with addresses translated and not, are brought together by
their first segment; nobody else is.
"""
import os
import socket
import struct
import subprocess
import sys
import time

import local
from lib.harness import case, main
from net_liars import stat_reason
from net_local import ALICE, BOB, MALLORY, Cgroups, host_with, until_direct
from netlab import Host, Lab, ip

PORT, PUBLISHED = 7000, 8080
OTHER = ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "sh", "-c",
         'mount -t tmpfs shm /dev/shm && exec "$@"', "sh"]  # network: each box's own
IPV6 = {"at": "::", "family": socket.AF_INET6}
ROOTS = [{"users": ["root"]}]  # without user namespaces, that of a container is none of its own
SO_TIMESTAMPING, TX_SCHED, MSG_ERRQUEUE = 37, 1 << 8, 0x2000


# Two connections: what the program sees of the saved segments before and after its exchange.
SAVED = """
import socket, sys
l = socket.create_server(("0.0.0.0", int(sys.argv[1])))
if sys.argv[2] == "own":
    l.setsockopt(6, 27, 1)
print("ready", flush=True)
for _ in range(2):
    c = l.accept()[0]
    print(l.getsockopt(6, 27), len(c.getsockopt(6, 28, 500)))
    while data := c.recv(64):
        c.sendall(data)
    print(len(c.getsockopt(6, 28, 500)), flush=True)
"""

ECHOED = """
import socket, sys, time
for _ in range(2):
    while True:
        try:
            c = socket.create_connection((sys.argv[1], int(sys.argv[2])))
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    for i in range(400):
        c.sendall(b"x" * 64)
        c.recv(64, socket.MSG_WAITALL)
    c.close()
"""

# Many connections, each of which three threads poll while it is used: events that none has made.
POLLED = """
import select, socket, sys, threading, time
odd, ends = [], []

def poll(c, done):
    p = select.poll()
    p.register(c, select.POLLIN)
    while not done.is_set():
        odd.extend(what for _, what in p.poll(5) if what & ~select.POLLIN)

def epoll(c, done):
    e = select.epoll()
    e.register(c, select.EPOLLIN)
    while not done.is_set():
        odd.extend(what for _, what in e.poll(0.005) if what & ~select.EPOLLIN)

def selects(c, done):
    while not done.is_set():
        if select.select([], [], [c], 0.005)[2]:
            odd.append("select")

def connected():
    while True:
        try:
            return socket.create_connection((sys.argv[1], int(sys.argv[2])))
        except ConnectionRefusedError:
            time.sleep(0.05)

def one():
    c, done = connected(), threading.Event()
    watchers = [threading.Thread(target=t, args=(c, done)) for t in (poll, epoll, selects)]
    for t in watchers[:int(sys.argv[3])]:
        t.start()
    for i in range(600):
        c.sendall(b"x" * 64)
        assert c.recv(64, socket.MSG_WAITALL) == b"x" * 64
    done.set()
    for t in watchers[:int(sys.argv[3])]:
        t.join()

for _ in range(30):
    one()
print(len(odd), *odd[:3])
"""

ECHO = """
import socket, sys, threading

def serve(c):
    while data := c.recv(64):
        c.sendall(data)

l = socket.create_server(("0.0.0.0", int(sys.argv[1])))
while True:
    threading.Thread(target=serve, args=(l.accept()[0],), daemon=True).start()
"""

# Starts a program as root of a user namespace with a range of ids, as a system container has it.
RANGE = """
import ctypes, os, sys
ready, done = os.pipe(), os.pipe()
if not os.fork():
    os.read(ready[0], 1)
    for name in "uid_map", "gid_map":
        with open(f"/proc/{os.getppid()}/{name}", "w") as file:
            file.write("0 100000 1000")
    os.write(done[1], b"x")
    os._exit(0)
assert ctypes.CDLL(None).unshare(0x10000000) == 0
os.write(ready[1], b"x")
os.read(done[0], 1)
os.wait()
os.setgroups([])
os.setresgid(0, 0, 0)
os.setresuid(0, 0, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Box(Host):
    """A container on the host: its own network, with a veth pair to the host, which routes."""

    def __init__(self, host, number):
        super().__init__(host.lab, host.number)
        self.host = host
        self.ns = host.lab.make_namespace(f"b{number}")
        self.local, self.control = host.local, host.control
        self.daemon, self.config = host.daemon, host.config
        self.ip, outside = f"10.66.{number}.2", f"10.66.{number}.1"
        self.ip6, outside6 = f"fd66:{number}::2", f"fd66:{number}::1"
        for ns in host.ns, self.ns:  # its first second would take the first segment
            subprocess.run(["ip", "netns", "exec", ns, "sh", "-c",
                            "echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad"], check=True)
        ip("-n", host.ns, "link", "add", f"box{number}", "type", "veth", "peer", "name", "eth0",
           "netns", self.ns)
        for ns, device, address in ((host.ns, f"box{number}", outside), (self.ns, "eth0", self.ip)):
            ip("-n", ns, "address", "add", f"{address}/24", "dev", device)
            ip("-n", ns, "link", "set", device, "up")
        for ns, device, address in ((host.ns, f"box{number}", outside6),
                                    (self.ns, "eth0", self.ip6)):
            ip("-n", ns, "address", "add", f"{address}/64", "dev", device, "nodad")
        ip("-n", self.ns, "route", "add", "default", "via", outside)
        ip("-n", self.ns, "route", "add", "default", "via", outside6)


def boxes(t, n=2, **config):
    """The host with rsockd, and so many boxes."""
    host = host_with(t, **config)
    return host, boxes_of(host, n)


def boxes_of(host, n):
    subprocess.run(["ip", "netns", "exec", host.ns, "sh", "-c",
                    "echo 1 >/proc/sys/net/ipv4/ip_forward; "
                    "echo 1 >/proc/sys/net/ipv6/conf/all/forwarding"], check=True)
    return [Box(host, number) for number in range(1, n + 1)]


def nft(host, *rules, family="ip"):
    subprocess.run(["ip", "netns", "exec", host.ns, "nft", "-f", "-"], check=True, text=True,
                   input=f"table {family} nat {{\n"
                         "chain pre { type nat hook prerouting priority dstnat; }\n"
                         "chain out { type nat hook output priority -100; }\n"
                         "chain post { type nat hook postrouting priority srcnat; }\n}\n"
                         + "\n".join(f"add rule {family} nat {rule}" for rule in rules))


def pair(server, client, port=None, to=None, user=ALICE, other=None, listen=None, **options):
    server = server.peer(user=user, **options).listen(PORT, **(listen or {}))
    client = client.peer(user=user if other is None else other, **options)
    client.connect(server, n=4, port=port, to=to) if port is None else connect(
        client, server, to, port)
    return server, client


def connect(client, server, to, port, n=4, group="s"):
    """By another port than the server's."""
    return client.both(server, {"do": "connect", "group": group, "to": [to, port], "n": n},
                       {"do": "accept", "of": f"l{PORT}", "group": group, "n": n})


def stays_tcp(t, host, client, server, ends):
    """So many pings that any stream that can be direct would be; rsockd may see them later."""
    for _ in range(20):
        client.ping(server)
    t.until(lambda: host.streams("tcp") == ends, 20, f"{ends} ends on TCP")
    t.equal(host.streams("direct"), 0, "ends that are direct")


def stays_out(t, host, server, other):
    """One who may not meet the server beside eight ends that are direct."""
    other.connect(server, "other", n=1)
    for _ in range(20):
        other.ping(server, "other")
    t.until(lambda: host.streams("tcp") == 2, 20, "2 ends on TCP")
    t.equal(host.streams("direct"), 8, "ends that are direct")


def works(t, host, server, client, apart=True):
    until_direct(t, host, client, server, 8)
    client.exchange(server, 30 << 20)
    client.ping(server, rounds=200, seed=3)
    t.equal(host.streams("direct", "direct"), 8, "ends that are direct")
    found = host.figure("local_apart_total")  # again where a request came before its introduction
    t.check(found >= 4 if apart else found == 0, f"{found} found by their first segments")


@case(timeout=90)
def two_boxes(t):
    host, (a, b) = boxes(t)
    works(t, host, *pair(a, b))


def until_found(t, host, server, client):
    """After a change: programs look at rsockd's file once a second, when they have a new
    connection.
    """
    later = iter(range(100))

    def found():
        group = f"later{next(later)}"
        client.connect(server, group, n=1)
        time.sleep(1.2)
        client.ping(server, group, rounds=60)
        return host.figure("local_apart_total") > 0
    t.until(found, 30, "a later stream to be found by its first segment")


@case(timeout=90)
def switched_off(t):
    """Nor does a listener keep anything."""
    host, (a, b) = boxes(t, **{"between-namespaces": "no"})
    server, client = pair(a, b)
    stays_tcp(t, host, client, server, 8)
    t.equal(host.figure("local_apart_total"), 0, "found by their first segments")
    host.write_config(user="nobody", **{"between-namespaces": "yes"})
    host.post("/v1/reload", {})
    until_found(t, host, server, client)


@case(timeout=90)
def roots_are_not_one_user(t):
    """Without user namespaces each container's root is user 0 outside, and so is the host's."""
    host, (a, b) = boxes(t)
    server, client = pair(a, b, user=None)
    stays_tcp(t, host, client, server, 8)
    near = host.peer()
    near.connect(server, "near", n=1)
    for _ in range(20):
        near.ping(server, "near")

    def refused():
        client.ping(server)  # which may still have to show its first segment
        return host.streams("tcp", "other-user") >= 8
    t.until(refused, 20, "the ends to know the reason")
    t.equal(host.streams("direct"), 0, "ends that are direct")
    t.equal(host.figure("local_apart_total"), 0, "found by their first segments")
    host.write_config(user="nobody", vouch=ROOTS)
    host.post("/v1/reload", {})
    until_found(t, host, server, client)


@case(timeout=90)
def in_other_namespaces_too(t):
    """Their own mounts, host name, processes and shared memory."""
    host, (a, b) = boxes(t, vouch=ROOTS)
    works(t, host, *pair(a, b, user=None, within=OTHER))


@case(timeout=90)
def a_box_and_the_host(t):
    host, (a,) = boxes(t, 1)
    works(t, host, *pair(a, host))


@case(timeout=90)
def the_host_and_a_box(t):
    host, (a,) = boxes(t, 1)
    server = host.peer(user=ALICE).listen(PORT)
    client = a.peer(user=ALICE)
    client.connect(server, n=4, to="10.66.1.1")
    works(t, host, server, client)


@case(timeout=90)
def within_one_box(t):
    """One network namespace, which is not rsockd's: the kernel shows both ends there."""
    host, (a,) = boxes(t, 1)
    works(t, host, *pair(a, a), apart=False)


@case(timeout=90)
def a_sidecar(t):
    """One network namespace, which is not rsockd's, and nothing else in common."""
    host, (a,) = boxes(t, 1, vouch=ROOTS)
    works(t, host, *pair(a, a, user=None, within=OTHER, to="127.0.0.1"))


@case(timeout=90)
def a_sidecar_by_ipv6(t):
    host, (a,) = boxes(t, 1, vouch=ROOTS)
    works(t, host, *pair(a, a, user=None, within=OTHER, to="::1", listen=IPV6))


@case(timeout=90)
def a_sidecar_to_which_is_redirected(t):
    """What the client connects to, a rule of their namespace sends to the sidecar."""
    host, (a,) = boxes(t, 1, vouch=ROOTS)
    nft(a, f"out ip daddr 10.96.0.1 tcp dport {PUBLISHED} redirect to :{PORT}")
    works(t, host, *pair(a, a, user=None, within=OTHER, port=PUBLISHED, to="10.96.0.1"))


@case(timeout=90)
def a_published_port(t):
    """The destination is translated, address and port."""
    host, (a, b) = boxes(t)
    nft(host, f"pre tcp dport {PUBLISHED} dnat to {a.ip}:{PORT}")
    works(t, host, *pair(a, b, port=PUBLISHED, to="10.66.2.1"))


@case(timeout=90)
def a_service_address(t):
    """Both addresses are translated, as kube-proxy does it; the client's port is left."""
    host, (a, b) = boxes(t)
    nft(host, f"pre ip daddr 10.96.0.1 tcp dport {PUBLISHED} dnat to {a.ip}:{PORT}",
        "post masquerade")
    works(t, host, *pair(a, b, port=PUBLISHED, to="10.96.0.1"))


@case(timeout=90)
def from_the_host_by_a_published_port(t):
    host, (a,) = boxes(t, 1)
    nft(host, f"out ip daddr 10.66.1.1 tcp dport {PUBLISHED} dnat to {a.ip}:{PORT}",
        "post masquerade")
    works(t, host, *pair(a, host, port=PUBLISHED, to="10.66.1.1"))


@case(timeout=90)
def by_ipv6(t):
    """Where the flow label takes the place of the identification."""
    host, (a, b) = boxes(t)
    works(t, host, *pair(a, b, to=a.ip6, listen=IPV6))


@case(timeout=90)
def a_box_and_the_host_by_ipv6(t):
    host, (a,) = boxes(t, 1)
    works(t, host, *pair(a, host, to=a.ip6, listen=IPV6))


@case(timeout=90)
def ipv4_in_sockets_of_ipv6(t):
    """The server listens at ::, and the client connects to a mapped address."""
    host, (a, b) = boxes(t)
    works(t, host, *pair(a, b, to=f"::ffff:{a.ip}", listen=IPV6))


@case(timeout=90)
def a_published_port_by_ipv6(t):
    host, (a, b) = boxes(t)
    nft(host, f"pre tcp dport {PUBLISHED} dnat to [{a.ip6}]:{PORT}", family="ip6")
    works(t, host, *pair(a, b, port=PUBLISHED, to="fd66:2::1", listen=IPV6))


@case(timeout=90)
def a_service_address_by_ipv6(t):
    host, (a, b) = boxes(t)
    nft(host, f"pre ip6 daddr fd96::1 tcp dport {PUBLISHED} dnat to [{a.ip6}]:{PORT}",
        "post masquerade", family="ip6")
    works(t, host, *pair(a, b, port=PUBLISHED, to="fd96::1", listen=IPV6))


@case(timeout=90)
def without_flow_labels(t):
    """Segments of IPv6 have no mark then, and the sequence number alone is not enough."""
    host, (a, b) = boxes(t)
    for box in a, b:
        subprocess.run(["ip", "netns", "exec", box.ns, "sh", "-c",
                        "echo 0 >/proc/sys/net/ipv6/auto_flowlabels"], check=True)
    server, client = pair(a, b, to=a.ip6, listen=IPV6)
    stays_tcp(t, host, client, server, 8)
    client.exchange(server, 5 << 20)


def root_within(uid):
    """Words that start a program as root of a user namespace: a user of the host, outside."""
    return ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "unshare", "--user",
            "--map-root-user", *OTHER[1:]]


@case(timeout=90)
def user_namespaces(t):
    """Both are root within, and who they are outside decides."""
    host, (a, b) = boxes(t)
    server, client = pair(a, b, user=None, within=root_within(ALICE))
    works(t, host, server, client)
    stays_out(t, host, server, b.peer(within=root_within(BOB)))


def daemon_in_a_box(t, uid, within):
    """rsockd in the third of three boxes, and nowhere on the host."""
    host = Lab(t, 1).hosts[0]
    folder = t.path("shared")
    os.mkdir(folder)
    os.chown(folder, uid, uid)
    for name in "local", "control", "state":
        setattr(host, name, os.path.join(folder, name))
    path = host.write_config()
    os.chown(host.state, uid, uid)
    a, b, c = boxes_of(host, 3)
    c.run([os.path.join(t.bin, "rsockd"), "-c", path], within=within, name="rsockd")

    def answers():
        try:
            return host.get("/v1/status")["pid"]
        except OSError:
            return 0
    t.until(answers, 20, "rsockd to answer")
    return host, a, b


@case(timeout=90)
def rsockd_in_a_box(t):
    """A user without privileges runs it, root of a user namespace, and the
    others see the directory of its socket.
    """
    host, a, b = daemon_in_a_box(t, ALICE, root_within(ALICE))
    server, client = pair(a, b)
    works(t, host, server, client)
    stays_out(t, host, server, b.peer(user=BOB))


@case(timeout=90)
def rsockd_in_a_system_container(t):
    """Whose containers' roots are all the root of it."""
    within = ["/usr/bin/python3", "-c", RANGE, *OTHER]
    host, a, b = daemon_in_a_box(t, 100000, within)
    server, client = pair(a, b, user=None, within=within)
    stays_tcp(t, host, client, server, 8)
    t.equal(host.figure("local_apart_total"), 0, "found by their first segments")


@case(timeout=90)
def another_client_port(t):
    """Which is no longer enough to be sure."""
    host, (a, b) = boxes(t)
    nft(host, "post ip protocol tcp masquerade to :1024-65535 random")
    server, client = pair(a, b)
    stays_tcp(t, host, client, server, 8)
    client.exchange(server, 5 << 20)
    t.equal(host.figure("local_apart_total"), 0, "found by their first segments")


@case(timeout=90)
def other_users(t):
    """Users as seen from outside: those that no vouch entry names stay apart."""
    host, (a, b) = boxes(t, vouch=[{"users": [str(ALICE), str(BOB)]}])
    server, client = pair(a, b, other=MALLORY)
    stays_tcp(t, host, client, server, 8)

    def refused():
        client.ping(server)  # which may still have to show its first segment
        return host.figure("local_not_allowed_total") >= 4
    t.until(refused, 20, "the pairs to be refused")
    bob = b.peer(user=BOB)
    bob.connect(server, "allowed", n=1)
    until_direct(t, host, bob, server, 2, "allowed")
    t.check(host.figure("local_apart_total") >= 1, "not found by its first segment")


@case(timeout=90)
def control_groups_of_other_users(t):
    """An entry of vouch may name containers, whoever their users are."""
    groups = Cgroups()
    host, (a, b) = boxes(t, vouch=[{"cgroups": [f"{groups.name}/pod"]}])
    server = a.peer(user=ALICE, within=groups.starting("/pod/a")).listen(PORT)
    client = b.peer(user=BOB, within=groups.starting("/pod/b"))
    client.connect(server, n=4)
    works(t, host, server, client)
    stays_out(t, host, server, b.peer(user=BOB, within=groups.starting("/b")))


def killed(t, **how):
    """Of the server: each in two boxes, with all read, and with bytes that it has not read."""
    host, (a, b) = boxes(t)
    shown = {False: [], True: []}
    for number, (preload, unread) in enumerate([(False, 0), (True, 0), (False, 1000),
                                                (True, 1000)]):
        server = a.peer(user=ALICE, preload=preload).listen(PORT + number, **how)
        client = b.peer(user=ALICE, preload=preload)
        client.connect(server, to=a.ip6 if how else None)
        if preload:
            until_direct(t, host, client, server, 2)
        server.do("send", group="s", size=50_000)
        if unread:
            client.do("send", group="s", size=unread)
            time.sleep(0.1)
        t.kill(server.proc)
        shown[preload].append(client.do("end", group="s")["shown"])
        t.kill(client.proc)
        t.until(lambda: host.streams() == 0, 20, "its processes to be gone")
    t.equal(shown[True], shown[False], "how it ended, preloaded and plain")


@case(timeout=90)
def a_server_that_is_killed(t):
    killed(t)


@case(timeout=90)
def a_server_that_is_killed_by_ipv6(t):
    killed(t, **IPV6)


@case(timeout=90)
def a_program_that_uses_saved_segments(t):
    """What the library has the kernel keep, no program sees; one that asks for it has it."""
    _host, (a, b) = boxes(t, vouch=ROOTS)
    for port, own in ((7101, "none"), (7103, "own")):
        seen = []
        for preload in (False, True):
            server = a.run(["/usr/bin/python3", "-c", SAVED, port + preload, own], preload=preload,
                           env={"RSOCK_DAEMON": a.local}, name="saved", stdout="pipe")
            t.equal(server.stdout.readline(), b"ready\n", "the server")
            client = b.run(["/usr/bin/python3", "-c", ECHOED, a.ip, port + preload],
                           preload=preload, env={"RSOCK_DAEMON": a.local}, name="echoed")
            t.wait(client)
            seen.append(server.stdout.read().split())
            t.wait(server)
        t.equal(seen[1], seen[0], f"preloaded and plain, {own}")


@case(timeout=90)
def who_polls_sees_nothing_of_it(t):
    """The connecting end finds out its first segment by way of the socket's error queue, also while
    threads poll the socket, which see no POLLERR.
    """
    host, (a, b) = boxes(t, vouch=ROOTS)
    server = a.run(["/usr/bin/python3", "-c", ECHO, 7200], preload=True,
                   env={"RSOCK_DAEMON": a.local}, name="echo")
    found = []
    for threads in (3, 0):
        client = b.run(["/usr/bin/python3", "-c", POLLED, a.ip, 7200, threads],
                       preload=True, env={"RSOCK_DAEMON": a.local}, name=f"polled{threads}",
                       stdout="pipe")
        seen = client.stdout.read().split()
        t.wait(client)
        t.equal(int(seen[0]), 0, f"events of ours with {threads} threads, {seen[1:]}")
        found.append(host.figure("local_apart_total"))
    t.check(found[0] >= 20 and found[1] - found[0] >= 20, f"found by their first segments: {found}")
    t.kill(server)


# ---- who is no end of it ----

class Claims:
    """A process in a box that claims ends to rsockd."""

    def __init__(self, box, uid=ALICE, ipv6=False):
        self.client = local.Client(box.local, uid)
        self.cookie = 1 << 40
        self.family = socket.AF_INET6 if ipv6 else socket.AF_INET
        self.ends = [socket.inet_pton(self.family, address) for address in
                     (("fd66:9::2", "fd66:1::2") if ipv6 else ("10.66.9.2", "10.66.1.2"))]

    def claim(self, connecting, syn, ports, again=False):
        """syn: sequence number, mark, and how many marks; None: it was not asked for it. again: of
        the same socket as before.
        """
        self.cookie += not again
        seq, mark, n = syn or (0, 0, 0)
        near, far = self.ends
        self.client.say(
            local.LOOKUP, netns=12345, local=near if connecting else far,
            peer=far if connecting else near, local_port=ports[0], peer_port=ports[1],
            family=self.family, cookie=self.cookie, fd=5,
            link=seq & 0xFFFFFFFF | (mark & 0xFFFF) << 32 | n << 48,
            flags=(local.BY_SYN if syn else 0) | (local.CONNECTING if connecting else 0))

    def asked(self, t, syn, ports):
        """What rsockd says when it has asked for the segment, and was told this one."""
        self.claim(True, None, ports)
        heard = self.heard()
        t.check(heard["type"] == local.ANSWER and heard["flags"] & local.BY_SYN,
                "an end of that port was not asked for its first segment")
        self.claim(True, syn, ports, again=True)
        return self.heard()

    def heard(self):
        said, fds = self.client.hear()
        for fd in fds:
            socket.close(fd)
        return said


def first_segment(connection):
    """Of a connecting socket that has sent nothing yet, not even acknowledged anything: by the
    packet of its first byte, as the library finds it.
    """
    connection.sendmsg([struct.pack("<I", 8)], [(socket.SOL_SOCKET, SO_TIMESTAMPING,
                                                 struct.pack("I", TX_SCHED))])
    packet = connection.recvmsg(2048, 512, MSG_ERRQUEUE)[0][14:]  # behind Ethernet's header
    if connection.family == socket.AF_INET6:
        return (struct.unpack(">I", packet[44:48])[0] - 1, struct.unpack(">H", packet[2:4])[0])
    header = packet[(packet[0] & 15) * 4:]
    # One segment before it has acknowledged the connection.
    return (struct.unpack(">I", header[4:8])[0] - 1, struct.unpack(">H", packet[4:6])[0] - 2)


def answered(t, server, near, begun=False):
    """40 requests; of the first, @begun: its length is sent."""
    server.tell("pong", group="s", rounds=40)
    for k in range(40):
        near.sendall(struct.pack("<Q", k) if begun and not k else struct.pack("<IQ", 8, k))
        t.equal(near.recv(8, socket.MSG_WAITALL), struct.pack("<Q", k), "the answer")
    server.hear()


def guess(t, ipv6=False):
    """An end waits for its other end, whose program has no library. Others claim to be that: with
    the right segment and other ports, as another user, with its port and other segments. Who has
    guessed often is not believed any more; later he is, and the right segment would do.
    """
    host, (a,) = boxes(t, 1)
    server = a.peer(user=ALICE).listen(PORT, **(IPV6 if ipv6 else {}))
    with host.inside():
        server.tell("accept", of=f"l{PORT}", group="s", n=1)
        near = socket.create_connection((a.ip6 if ipv6 else a.ip, PORT))
    server.hear()
    seq, mark = first_segment(near)
    answered(t, server, near, begun=True)
    port = near.getsockname()[1]
    mallory, alice, weak = (Claims(a, uid, ipv6) for uid in (MALLORY, ALICE, ALICE))
    weak.claim(True, None, (port + 1, PORT))
    t.equal(weak.heard()["flags"], 0, "an end of another port is not asked")
    alice.claim(True, (seq, mark, 1), (port + 1, PORT))
    t.equal(stat_reason(t, alice.heard()), "other-netns", "another port")
    alice.claim(True, (seq, mark, 1), (port, PORT))
    t.equal(alice.heard()["flags"], local.BY_SYN, "what is said unasked does not count")
    alice.claim(False, (seq, mark, 1), (PORT, port))
    t.equal(stat_reason(t, alice.heard()), "other-netns", "the same end")
    for said in None, (seq, mark, 1):
        mallory.claim(True, said, (port, PORT))
        t.equal(stat_reason(t, mallory.heard()), "other-user", f"another user: {said}")
    t.equal(stat_reason(t, alice.heard()), "other-user", "the end that waits is told, once")
    for k in range(32):
        for what, syn in (("a wrong sequence number", (seq ^ 1 << k, mark, 1)),
                          ("wrong marks", (seq, mark + 4 + 2000 * k, 4))):
            t.equal(stat_reason(t, alice.asked(t, syn, (port, PORT))), "other-netns", what)
    t.equal(stat_reason(t, alice.asked(t, (seq, mark, 1), (port, PORT))), "other-netns",
            "right, after too many wrong ones")
    t.equal(host.figure("local_apart_total"), 0, "brought together")
    # The connection goes on, and its real client is the only one that it hears.
    answered(t, server, near)

    def is_found():
        return alice.asked(t, (seq, mark, 1), (port, PORT))["type"] == local.RENDEZVOUS
    t.until(is_found, 30, "the right segment to be believed again")
    t.equal(host.figure("local_apart_total"), 1, "brought together")
    answered(t, server, near)


@case(timeout=90)
def guesses(t):
    guess(t)


@case(timeout=90)
def guesses_by_ipv6(t):
    guess(t, ipv6=True)


def claim_without_end(t, ipv6=False):
    """Of another user; the streams of this one are brought together."""
    host, (a, b) = boxes(t)
    mallory = [Claims(a, MALLORY, ipv6) for _ in range(4)]
    for k in range(400):
        for one in mallory:
            one.claim(bool(k & 1), (k * 7919, k, 1), (1024 + k, PORT))
    works(t, host, *(pair(a, b, to=a.ip6, listen=IPV6) if ipv6 else pair(a, b)))


@case(timeout=90)
def who_says_that_it_is_the_host_s(t):
    """An end of a connection within the host, whose program has no library, by addresses and its
    cookie, which can be guessed: by root of a box, who has the number of the host's, and by a user.
    """
    host, (a,) = boxes(t, 1)
    for port, uid in (PORT, 0), (PORT + 1, ALICE):
        server = host.peer(user=uid or None).listen(port)
        with host.inside(), local.as_user(uid):
            server.tell("accept", of=f"l{port}", group="s", n=1)
            near = socket.create_connection(("127.0.0.1", port))
        server.hear()
        own = local.Client(a.local, uid)
        with a.inside():
            liar = local.Client(a.local, uid, elsewhere=True)
        for _ in range(20):
            answered(t, server, near)
            liar.look_up(near, True)
            t.equal(stat_reason(t, liar.hear()[0]), "other-netns", f"the claim of user {uid}")

        def is_found():
            answered(t, server, near)
            own.look_up(near, True)
            return own.hear()[0]["type"] == local.RENDEZVOUS
        t.until(is_found, 20, "one on the host to be believed")


@case(timeout=90)
def claims_without_end(t):
    claim_without_end(t)


@case(timeout=90)
def claims_without_end_by_ipv6(t):
    claim_without_end(t, ipv6=True)


if __name__ == "__main__":
    sys.exit(main())
