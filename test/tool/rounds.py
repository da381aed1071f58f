"""A client of redis (tool_demote.py) that makes round trips on one connection: each line of its
input is how many; "stamps" enables the kernel's time stamps, for which the library leaves the
connection to the kernel; "busy" makes it ask again and again for an answer, without sleeping.
"""
import socket
import sys

# Linux; not in the module socket
SO_TIMESTAMPING, SOF_TIMESTAMPING_RX_HARDWARE = 37, 4


def some(peer, size):
    while True:
        try:
            return peer.recv(size)
        except BlockingIOError:
            pass


with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as server:
    print("connected", flush=True)
    for line in sys.stdin:
        if line.strip() == "stamps":
            server.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_RX_HARDWARE)
        elif line.strip() == "busy":
            server.setblocking(False)
        for _ in range(int(line) if line.strip().isdigit() else 0):
            server.sendall(b"PING\r\n")
            answer = b""
            while len(answer) < 7:
                answer += some(server, 7 - len(answer))
            if answer != b"+PONG\r\n":
                sys.exit(f"not the answer: {answer!r}")
        print("done", line.strip(), flush=True)
