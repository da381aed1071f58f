"""Both ends ping-pong until the stream is promoted, then write a block each before either reads, in
turns, with blocking calls (real_python.py).
"""
import random
import socket
import sys

ROLE, PORT, SIZE, TURNS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) * 1000, int(sys.argv[4])
PINGS = 2000


def receive(peer, size):
    data = bytearray()
    while len(data) < size:
        part = peer.recv(min(size - len(data), 1 << 20))
        if not part:
            sys.exit(f"{ROLE}: EOF after {len(data)} of {size} bytes")
        data += part
    return bytes(data)


def block(role, turn):
    return random.Random(f"{role} {turn}").randbytes(SIZE)


if ROLE == "server":
    listener = socket.create_server(("127.0.0.1", PORT))
    peer, _address = listener.accept()
else:
    peer = socket.create_connection(("127.0.0.1", PORT))
peer.settimeout(None)
for ping in range(PINGS):
    message = ping.to_bytes(4, "little") * 32
    if ROLE == "client":
        peer.sendall(message)
    if receive(peer, 128) != message:
        sys.exit(f"{ROLE}: wrong bytes in ping {ping}")
    if ROLE == "server":
        peer.sendall(message)
other = "client" if ROLE == "server" else "server"
for turn in range(TURNS):
    mine, theirs = block(ROLE, turn), block(other, turn)
    peer.sendall(mine)
    if receive(peer, SIZE) != theirs:
        sys.exit(f"{ROLE}: wrong bytes in turn {turn}")
peer.shutdown(socket.SHUT_WR)
if peer.recv(1):
    sys.exit(f"{ROLE}: more bytes than were sent")
print("right")
