"""turns.py server PORT | client HOST PORT: exchanges messages of 4 KiB in turns over one
connection, without a pause. Run by rdma_failover.py.

The client reads seconds from its standard input, a line each, and at the end of each such window
prints [round trips, the longest of them, their median], in seconds.
"""
import json
import socket
import statistics
import sys
import time

BYTES = 4096


def receive(sock):
    count = BYTES
    while count:
        got = len(sock.recv(count))
        if not got:
            return False
        count -= got
    return True


def serve(port):
    with socket.create_server(("", port)) as listener:
        print("listening", flush=True)
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while receive(sock):
            sock.sendall(bytes(BYTES))


def ask(host, port):
    sock = socket.create_connection((host, port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for line in sys.stdin:
        took, end = [], time.monotonic() + float(line)
        while not took or time.monotonic() < end:
            begun = time.monotonic()
            sock.sendall(bytes(BYTES))
            if not receive(sock):
                sys.exit("the server has gone")
            took.append(time.monotonic() - begun)
        print(json.dumps([len(took), max(took), statistics.median(took)]), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(int(sys.argv[2]))
    else:
        ask(sys.argv[2], int(sys.argv[3]))
