"""one_send.py (server | client) PORT MEGABYTES (real_python.py): one send() of all bytes on a new
connection, read in small pieces.
"""
import hashlib
import random
import socket
import sys

role, port, megabytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
data = random.Random(port).randbytes(1 << 20)
if role == "server":
    with socket.create_server(("127.0.0.1", port)) as listener:
        connection, _ = listener.accept()
    wanted, got, left = hashlib.md5(), hashlib.md5(), megabytes << 20
    while left and (block := connection.recv(min(65536, left))):
        got.update(block)
        left -= len(block)
    for _ in range(megabytes):
        wanted.update(data)
    print("right" if not left and got.digest() == wanted.digest() else "wrong")
else:
    connection = socket.create_connection(("127.0.0.1", port))
    print("right" if connection.send(data * megabytes) == megabytes << 20 else "wrong")
