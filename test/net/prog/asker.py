"""Connects as it is told (net_first_contact.py): reads one JSON object a line from stdin, and
answers each with one on stdout: the address it reached, and how long that took.
"""
import errno
import json
import os
import select
import socket
import sys
import time

KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}


def connect(address, port, kind="tcp", family="inet", wait=True):
    sock = socket.socket(socket.AF_INET6 if family == "inet6" else socket.AF_INET, KINDS[kind])
    sock.setblocking(wait)
    began = time.monotonic()
    number = sock.connect_ex((address, port))
    took = time.monotonic() - began
    if number == errno.EINPROGRESS:
        select.select([], [sock], [], 20)
        number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return {"errno": errno.errorcode.get(number, number), "took": took,
            "peer": sock.getpeername()[0] if not number else None}


def resolve(address, port):
    return {"found": [entry[4][0]
                      for entry in socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)]}


print(json.dumps({"pid": os.getpid()}), flush=True)
for line in sys.stdin:
    order = json.loads(line)
    print(json.dumps({"connect": connect, "resolve": resolve}[order.pop("do")](**order)),
          flush=True)
