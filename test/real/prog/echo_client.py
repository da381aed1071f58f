"""Threads that send random messages to an echo server and compare what comes back (real_python.py);
prints "right BYTES".
"""
import random
import socket
import sys
import threading

PORT, CLIENTS, LIMIT = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) * 1000
right = []


def talk(number):
    source = random.Random(number)
    peer = socket.create_connection(("127.0.0.1", PORT), timeout=50)
    moved = 0
    while moved < LIMIT:
        message = source.randbytes(source.choice((1, 7, 64, 300, 1400, 5000, 40000)))
        peer.sendall(message)
        back = bytearray()
        while len(back) < len(message):
            data = peer.recv(len(message) - len(back))
            if not data:
                sys.exit(f"client {number}: EOF after {moved + len(back)} bytes")
            back += data
        if back != message:
            sys.exit(f"client {number}: wrong bytes between {moved} and {moved + len(message)}")
        moved += len(message)
    peer.shutdown(socket.SHUT_WR)
    if peer.recv(1):
        sys.exit(f"client {number}: more bytes than were sent")
    right.append(moved)


threads = [threading.Thread(target=talk, args=(number,)) for number in range(CLIENTS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if len(right) != CLIENTS:
    sys.exit("a client failed")
print("right", sum(right))
