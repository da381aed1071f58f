"""first_bytes.py server PORT | client HOST PORT SECONDS: times 128 KiB over one connection, from
connect() on. Run by rdma_cost.py.

The client sends them at once and waits for a one-word answer; it repeats this, with pauses, for the
given time. It prints a list of [seconds from connect() to the beginning, seconds it took].
"""
import json
import socket
import sys
import time

BYTES = 128 << 10
PAUSE_S = 0.02


def receive(sock, count):
    while count:
        got = len(sock.recv(min(count, 65536)))
        if not got:
            return False
        count -= got
    return True


def serve(port):
    with socket.create_server(("", port)) as listener:
        print("listening", flush=True)
        sock, _ = listener.accept()
        while receive(sock, BYTES):
            sock.sendall(b"k")


def ask(host, port, seconds):
    data, took = bytes(BYTES), []
    begun = time.monotonic()
    sock = socket.create_connection((host, port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    at = begun
    while at < begun + seconds:
        sock.sendall(data)
        if not receive(sock, 1):
            sys.exit("the server is gone")
        took.append((at - begun, time.monotonic() - at))
        time.sleep(PAUSE_S)
        at = time.monotonic()
    print(json.dumps(took))


if sys.argv[1] == "server":
    serve(int(sys.argv[2]))
else:
    ask(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
