#!/usr/bin/python3 -B
"""Programs under the filter of systemd's SystemCallFilter=@system-service, which kills them for
every other call.
"""
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


def served(t, how):
    """The server leaves the ring with bytes unread; the client makes no call meanwhile."""
    port = t.free_port()
    wrapper = [PYTHON, "-B", f"{PROGRAMS}/under_filter.py", "@system-service"]
    server = t.spawn([*wrapper, PYTHON, "-c", SERVER, port, how], name="server")
    t.listening(server, port)
    client = t.spawn([*wrapper, PYTHON, "-c", CLIENT, port], name="client", stdin="pipe")
    t.wait(server)
    t.equal(server.out().strip(), "right", "what the server read")
    client.popen.stdin.close()
    t.wait(client)
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


if __name__ == "__main__":
    sys.exit(main())
