"""A server (tool_demote.py) that answers redis's PING: after so many answers a forked child goes
on, and the parent closes the connection.
"""
import os
import socket
import sys


def answer(peer):
    data = b""
    while len(data) < 6:
        more = peer.recv(6 - len(data))
        if not more:
            os._exit(0)
        data += more
    peer.sendall(b"+PONG\r\n")


with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    peer, _ = server.accept()
    for _ in range(int(sys.argv[2])):
        answer(peer)
    child = os.fork()
    if not child:
        while True:
            answer(peer)
    peer.close()
    print(child, flush=True)
    os.waitpid(child, 0)
