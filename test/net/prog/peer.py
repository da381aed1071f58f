"""A test program (netlab.Peer): reads one JSON object a line from stdin, executes it, and answers
with one on stdout.

It has groups of TCP sockets by name. Two ends that do something together either ping and pong, or
both exchange; content is computed from a seed, and compared.
"""
import ctypes
import json
import os
import random
import select
import socket
import struct
import sys
import threading

GROUPS = {}
TIMEOUT = 60


def exactly(peer, size):
    data = bytearray()
    while len(data) < size:
        part = peer.recv(size - len(data))
        if not part:
            raise EOFError(f"after {len(data)} of {size} bytes")
        data += part
    return bytes(data)


def listen(group, at, backlog=1024, family=socket.AF_INET):
    listener = socket.create_server(tuple(at), backlog=backlog, family=family,
                                    dualstack_ipv6=family == socket.AF_INET6)
    GROUPS[group] = [listener]
    return {"port": listener.getsockname()[1]}


def connect(group, to, n=1):
    for _ in range(n):
        peer = socket.create_connection(tuple(to), timeout=TIMEOUT)
        peer.settimeout(None)
        GROUPS.setdefault(group, []).append(peer)
    return {"names": [peer.getsockname()[1] for peer in GROUPS[group]]}


def accept(of, group, n=1):
    for _ in range(n):
        peer, _address = GROUPS[of][0].accept()
        GROUPS.setdefault(group, []).append(peer)
    return {}


def peers(group):
    return {"ips": [peer.getpeername()[0] for peer in GROUPS[group]]}


def ping(group, rounds=20, seed=1, most=3000):
    """Messages with a length in front, each answered by the same message."""
    dice, moved = random.Random(seed), 0
    for number in range(rounds):
        for peer in GROUPS[group]:
            message = dice.randbytes(dice.choice((1, 64, most)))
            peer.sendall(len(message).to_bytes(4, "little") + message)
            if exactly(peer, len(message)) != message:
                raise ValueError(f"wrong bytes in round {number}")
            moved += len(message)
    return {"moved": moved}


def pong(group, rounds=20):
    for _ in range(rounds):
        for peer in GROUPS[group]:
            peer.sendall(exactly(peer, int.from_bytes(exactly(peer, 4), "little")))
    return {}


def blocks(seed, size):
    dice = random.Random(seed)
    while size:
        block = dice.randbytes(min(size, 1 << 18))
        size -= len(block)
        yield block


def exchange(group, mine, theirs, size):
    """Both ways at once."""
    trouble = []

    def receive(peer, number):
        try:
            for block in blocks(f"{theirs} {number}", size):
                if exactly(peer, len(block)) != block:
                    raise ValueError("wrong bytes")
        except (EOFError, ValueError, OSError) as error:
            trouble.append(f"socket {number}: {error!r}")
    for number, peer in enumerate(GROUPS[group]):
        reader = threading.Thread(target=receive, args=(peer, number))
        reader.start()
        for block in blocks(f"{mine} {number}", size):
            peer.sendall(block)
        reader.join()
    if trouble:
        raise ValueError(trouble)
    return {"moved": size * len(GROUPS[group])}


def end(group, seconds=20):
    """How each stream ended: the number of bytes that were there, and what came after them."""
    shown = []
    for peer in GROUPS[group]:
        got, how = 0, "EOF"
        try:
            while select.select([peer], [], [], seconds)[0]:
                part = peer.recv(65536)
                if not part:
                    break
                got += len(part)
            else:
                how = "silence"
        except OSError as error:
            how = error.__class__.__name__
        try:
            late = "sent"
            for _ in range(3):
                peer.send(b"x")
                select.select([peer], [], [], 0.05)
        except OSError as error:
            late = error.__class__.__name__
        shown.append([got, how, late])
    return {"shown": shown}


def send(group, size=100):
    for peer in GROUPS[group]:
        peer.sendall(b"\0" * size)
    return {}


def close(group):
    for peer in GROUPS.pop(group):
        peer.close()
    return {}


def background():
    """Goes into the background, as daemons do; the test reaches the child by the same pipes."""
    if os.fork():
        os._exit(0)
    os.setsid()
    return {"pid": os.getpid()}


def become(uid):
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    return {"uid": os.geteuid()}


def confine(denied=None):
    """Installs a system call filter that allows everything but the call of that number, which gets
    EPERM.
    """
    class Program(ctypes.Structure):
        _fields_ = [("instructions", ctypes.c_ushort), ("at", ctypes.c_void_p)]
    load, equals, ends, allow, deny = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050001
    code = [(ends, 0, 0, allow)] if denied is None else [
        (load, 0, 0, 0), (equals, 0, 1, denied), (ends, 0, 0, deny), (ends, 0, 0, allow)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
    program = Program(len(code), ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privs, seccomp, filter_mode = 38, 22, 2
    if libc.prctl(no_new_privs, 1, 0, 0, 0) or libc.prctl(seccomp, filter_mode,
                                                          ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    return {}


def fork_and_end(group):
    """Forks a child that has the streams, too, and ends at once; they stay with the parent."""
    pid = os.fork()
    if not pid:
        try:
            ends = [peer.getpeername() for peer in GROUPS[group]]
            os._exit(len(ends) == 0)
        except OSError:
            os._exit(2)
    return {"status": os.waitpid(pid, 0)[1]}


COMMANDS = {command.__name__: command for command in (
    listen, connect, accept, peers, ping, pong, exchange, end, send, close, background, become,
    confine, fork_and_end)}

print(json.dumps({"pid": os.getpid()}), flush=True)
for line in sys.stdin:
    order = json.loads(line)
    try:
        answer = COMMANDS[order.pop("do")](**order)
    except Exception as error:  # the harness reports it
        answer = {"error": repr(error)}
    print(json.dumps(answer), flush=True)
