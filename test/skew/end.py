#!/usr/bin/python3
"""One end of a connection that two releases of librsock.so meet on (skew_versions.py): end.py
serve|connect ADDRESS PORT.

connect: a fixed script of messages, then round trips until a line comes on standard input, then
silence until the next line, then an orderly end. What both ends print must be the same on kernel
TCP, whichever libraries they have.
"""
import errno
import hashlib
import select
import socket
import sys

SIZES = [1, 64, 1500, 70000, 1 << 20, 0, 3]
EARNS = 400


def said(*words):
    print(*words, flush=True)


def error_of(call):
    try:
        return call()
    except OSError as error:
        return errno.errorcode[error.errno]


def content(number, size):
    return hashlib.shake_128(bytes([number])).digest(size)


def exactly(peer, size):
    data = bytearray()
    while len(data) < size:
        part = peer.recv(size - len(data))
        if not part:
            raise EOFError(f"{len(data)} of {size} bytes")
        data += part
    return bytes(data)


def round_trip(peer, data):
    peer.sendall(data)
    return exactly(peer, len(data)) == data


def connect(address, port):
    peer = socket.create_connection((address, port))
    for number, size in enumerate(SIZES):
        said("message", size, round_trip(peer, content(number, size)))
    said("earns", all(round_trip(peer, content(7, 64)) for _ in range(EARNS)))
    peer.setblocking(False)
    said("nothing there", error_of(lambda: peer.recv(10)))
    peer.setblocking(True)
    right = True
    while not select.select([sys.stdin], [], [], 0.001)[0]:
        right &= round_trip(peer, b"x" * 64)
    said("right", right, bool(sys.stdin.readline()))
    sys.stdin.readline()  # silence
    for number, size in enumerate(SIZES):
        said("message", size, round_trip(peer, content(number, size)))
    said("sends", peer.send(b"end"))
    peer.shutdown(socket.SHUT_WR)
    said("after shutdown", error_of(lambda: peer.send(b"more")))
    said("answer", exactly(peer, 6), peer.recv(10))
    peer.close()


def serve(address, port):
    with socket.create_server((address, port)) as listener:
        peer, _address = listener.accept()
    total, last = 0, b""
    while data := peer.recv(65536):
        total, last = total + len(data), (last + data)[-3:]
        if last != b"end":
            peer.sendall(data)
        else:
            peer.sendall(b"end" + data[:0] + b"bye")
    said("end", last, peer.recv(1))
    peer.close()


{"connect": connect, "serve": serve}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
