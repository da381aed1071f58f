#!/usr/bin/python3
"""Programs whose streams are to show one of their segments, since somebody claims to be the other
end of it in a container (net_apart.py): they see nothing of that.
"""
import subprocess
import sys

from lib.harness import case, main
from net_apart import Claims, ECHO, boxes
from net_local import ALICE, MALLORY

PORT, CLIENT = 7200, 40000

OPEN = """
import select, socket, sys, time
def connection(k, options=()):
    c = socket.socket()
    c.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for level, name, value in options:
        c.setsockopt(level, name, value)
    c.bind(("0.0.0.0", 40000 + k))
    c.connect((sys.argv[1], 7200))
    c.setblocking(False)
    return c
"""

# A segment in each round is lost once: the test drops it, and lets its copy pass.
LOST = OPEN + """
c, e = connection(0), select.epoll()
e.register(c, select.EPOLLIN)
events = []
for k in range(50):
    lost = k >= 4
    if lost:
        print("drop", flush=True)
        sys.stdin.readline()
    c.send(b"x" * 64)
    if lost:
        print("pass", flush=True)
        sys.stdin.readline()
    got = 0
    while got < 64:
        events += [what for _, what in e.poll(5) if what != select.EPOLLIN]
        try:
            got += len(c.recv(64))
        except BlockingIOError:
            pass
events += [what for _, what in e.poll(0.2)]
print("end", len(events), events[:3], flush=True)
"""

# Sends of more than is shown, by a program that waits for the next edge after a short one. A small
# buffer has no room for what is shown.
LARGE = OPEN + """
short = 0
for k in range(10):
    c, e = connection(k, [(socket.SOL_SOCKET, socket.SO_RCVBUF, int(sys.argv[2]))]), select.epoll()
    e.register(c, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
    e.poll(0)
    for _ in range(40):
        left = 20000
        while left:
            left -= c.send(b"y" * left)
            if left:
                short += 1
                if not e.poll(5):
                    sys.exit("no edge")
        time.sleep(0.004)
print("end", short, flush=True)
"""

# Edges that nothing has caused but a segment that was shown: of the answer there is another one.
EDGES = OPEN + """
extra = 0
for k in range(10):
    c, e = connection(k, eval(sys.argv[2])), select.epoll()
    e.register(c, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
    e.poll(0)
    for _ in range(40):
        c.send(b"x" * 64)
        extra += sum(not what & select.EPOLLIN for _, what in e.poll(0.004))
        got = 0
        while got < 64:
            e.poll(5)
            try:
                got += len(c.recv(64))
            except BlockingIOError:
                pass
print("end", extra, flush=True)
"""

SLOW = ECHO.replace("c.sendall", "time.sleep(0.008); c.sendall").replace("import ", "import time, ")
SINK = ECHO.replace("data := c.recv(64)", "c.recv(1 << 20)").replace("c.sendall(data)", "pass")


def claimed(t, claimant, served):
    """A server without the library in a box, and one who claims its ends, of ten client ports."""
    host, (a,) = boxes(t, 1)
    a.run(["/usr/bin/python3", "-c", served, PORT], name="server")
    t.until(lambda: "LISTEN" in subprocess.run(
        ["ip", "netns", "exec", a.ns, "ss", "-Htln", f"sport = {PORT}"], check=True, text=True,
        capture_output=True).stdout, 10, "the server to listen")
    claims = Claims(a, claimant)
    for k in range(10):
        claims.claim(False, (123 + k, 45, 1), (PORT, CLIENT + k))
    return host, a, claims


def client(host, a, program, *args, preload=True):
    return host.run(["/usr/bin/python3", "-c", program, a.ip, *args], preload=preload, user=ALICE,
                    env={"RSOCK_DAEMON": host.local}, name="client", stdin="pipe", stdout="pipe")


def said(t, proc):
    """The last line of the program."""
    line = proc.stdout.read().decode().split("\n")[-2]
    t.wait(proc)
    return line


@case(timeout=120)
def lost_and_sent_again(t):
    """The kernel shows a segment as often as it sends it."""
    host, a, _claims = claimed(t, ALICE, ECHO)

    def nft(text):
        subprocess.run(["ip", "netns", "exec", a.ns, "nft", "-f", "-"], check=True, text=True,
                       input=text)
    nft("table inet x { chain in { type filter hook input priority 0; }\n}")
    proc = client(host, a, LOST)
    while (line := proc.stdout.readline()) in (b"drop\n", b"pass\n"):
        nft(f"add rule inet x in tcp dport {PORT} drop" if line == b"drop\n"
            else "flush chain inet x in")
        proc.stdin.write(b"\n")
    t.equal(line, b"end 0 []\n", "events that kernel TCP does not have")
    t.wait(proc)


@case(timeout=60)
def no_short_sends(t):
    """Where the kernel takes all."""
    host, a, _claims = claimed(t, ALICE, SINK)
    for room in 2048, 200_000:
        t.equal(said(t, client(host, a, LARGE, room)), "end 0", f"short sends, SO_RCVBUF {room}")


@case(timeout=60)
def of_who_may_not_meet(t):
    """He has nothing shown: each segment that is costs an edge."""
    host, a, _claims = claimed(t, MALLORY, SLOW)
    t.equal(said(t, client(host, a, EDGES, "[]")), "end 0", "edges of another user's")


@case(timeout=60)
def whose_error_queue_it_is(t):
    """Nothing is shown to a program that may read the queue itself."""
    host, a, _claims = claimed(t, ALICE, SLOW)
    options = "[(socket.IPPROTO_IP, 11, 1)]"  # IP_RECVERR
    t.equal(said(t, client(host, a, EDGES, options)), "end 0", "edges, with IP_RECVERR")
    t.check(said(t, client(host, a, EDGES, "[]")) != "end 0",
            "nothing was shown without it, either: the claims have no effect")


if __name__ == "__main__":
    sys.exit(main())
