#!/usr/bin/python3 -B
"""Programs under filters as of systemd's SystemCallFilter=: every other call kills them."""
import re
import sys

from lib.harness import PROGRAMS, PYTHON, case, main

SERVER = """
import socket, subprocess, sys
l = socket.create_server(("127.0.0.1", int(sys.argv[1])))
c, _ = l.accept()
c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for i in range(3000):
    c.sendall(c.recv(64, socket.MSG_WAITALL))
left = c.recv(1, socket.MSG_PEEK)
got = b""
if sys.argv[2] == "options":
    c.setsockopt(socket.SOL_SOCKET, 29, 1)
    while len(got) < 200000:
        got += c.recv(65536)
else:
    got = subprocess.run(["/usr/bin/head", "-c", "200000"], stdin=c, stdout=subprocess.PIPE).stdout
print("right" if got == b"y" * 200000 else f"wrong: {len(got)}", flush=True)
c.close()
"""

CLIENT = """
import socket, sys, time
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for i in range(3000):
    s.sendall(b"x" * 64)
    s.recv(64, socket.MSG_WAITALL)
s.sendall(b"y" * 200000)
sys.stdin.read()
"""


def under(calls):
    """The library in the program sees it set the filter."""
    return [PYTHON, "-B", f"{PROGRAMS}/under_filter.py", calls]


def begun_under(t, calls):
    """The program begins under the filter, which nothing preloaded has set."""
    return ["env", "-u", "LD_PRELOAD", *under(calls), "env", f"LD_PRELOAD={t.library or ''}"]


def exchanged(t, how, server_under, client_under):
    """The server leaves the ring with bytes unread; the client makes no call meanwhile."""
    port = t.free_port()
    server = t.spawn([*server_under, PYTHON, "-c", SERVER, port, how], name="server")
    t.listening(server, port)
    client = t.spawn([*client_under, PYTHON, "-c", CLIENT, port], name="client", stdin="pipe")
    t.wait(server)
    t.equal(server.out().strip(), "right", "what the server read")
    client.popen.stdin.close()
    t.wait(client)
    return port


def served(t, how):
    wrapper = under("@system-service")
    port = exchanged(t, how, wrapper, wrapper)
    t.stats.direct(port, to_server=192000, to_client=192000, share=0.4)


@case(60)
def options(t):
    served(t, "options")


@case(60)
def executed(t):
    """The next program, which uses the kernel's socket alone, reads: the bytes reach it by a relay
    process.
    """
    served(t, "exec")


@case(60)
def begun(t):
    wrapper = begun_under(t, "@system-service")
    port = exchanged(t, "options", wrapper, wrapper)
    t.stats.direct(port, to_server=192000, to_client=192000, share=0.4)


def stays_on_tcp(t, server_under, client_under):
    """A process that the library must not touch has no statistics."""
    port = exchanged(t, "options", server_under, client_under)
    if not t.library:
        return
    t.stats.sample()
    told = [t.stats.of_port(port, side) for side in ("server", "client")]
    t.equal([bool(streams) for streams in told], [server_under == [], client_under == []],
            "ends that are in the statistics")
    for stream in sum(told, []):
        t.equal(stream.ring_bytes, 0, "bytes by a ring")


@case(120)
def begun_lacking(t):
    """One call less than the library makes: at its start, when it pairs, in a wait."""
    for call in ("eventfd2", "memfd_create", "socketpair", "preadv2"):
        wrapper = begun_under(t, f"@system-service,~{call}")
        stays_on_tcp(t, wrapper, [])
        stays_on_tcp(t, [], wrapper)


def calls_on_tcp(t, server_under, client_under, traced):
    """All that server and client call on kernel TCP, besides what a trial makes."""
    exchanged(t, "options", server_under, client_under)
    found = set()
    for path in traced:
        with open(path, encoding="utf-8") as file:
            found |= set(re.findall(r"^\d+ +(\w+)\(", file.read(), re.M))
    t.check(len(found) > 20, f"strace saw {len(found)} calls")
    return found


@case(60)
def begun_on_tcp(t):
    """Nothing but what the programs call on kernel TCP, and the trial's clone() and wait4()."""
    traced = [t.path("server.strace"), t.path("client.strace")]
    tracers = [["strace", "-f", "-E", "LD_PRELOAD", "-o", path] for path in traced]
    found = calls_on_tcp(t, *tracers, traced)
    wrapper = begun_under(t, ",".join(sorted(found | {"clone", "wait4"})))
    stays_on_tcp(t, wrapper, wrapper)


if __name__ == "__main__":
    sys.exit(main())
