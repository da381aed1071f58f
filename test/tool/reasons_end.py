"""One end of a connection that is to stay on TCP: reasons_end.py serve|connect PORT [MODE].

serve: an echo server, one thread a connection. connect: round trips of 64 bytes for as long as its input is open. MODE is
done to the connection before the first byte.
"""
import fcntl
import os
import select
import socket
import sys
import threading

SO_TIMESTAMP, SO_ZEROCOPY = 29, 60
ROUNDS_FEW = 3
KEPT = []


def shared(peer):
    """A child that has it as well, and does nothing, until this process is gone."""
    read, write = os.pipe()
    if not os.fork():
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    KEPT.append(write)


def passed(peer):
    ours, theirs = socket.socketpair()
    socket.send_fds(ours, [b"x"], [peer.fileno()])
    KEPT.extend((ours, theirs))


def epoll_exclusive(peer):
    epoll = select.epoll()
    epoll.register(peer.fileno(), select.EPOLLIN | select.EPOLLEXCLUSIVE)
    KEPT.append(epoll)


MODES = {
    "async": lambda peer: fcntl.fcntl(peer, fcntl.F_SETFL, fcntl.fcntl(peer, fcntl.F_GETFL) | os.O_ASYNC),
    "epoll-exclusive": epoll_exclusive,
    "messages": lambda peer: peer.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMP, 1),
    "oob": lambda peer: peer.send(b"u", socket.MSG_OOB),
    "passed": passed,
    "shared-holder": shared,
    "stdio": lambda peer: KEPT.append(os.fdopen(os.dup(peer.fileno()), "rb")) or os.dup2(peer.fileno(), 0),
    "zerocopy": lambda peer: peer.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1),
}


def serve(port, mode):
    def echo(peer):
        with peer:
            MODES.get(mode, lambda _peer: None)(peer)
            while data := peer.recv(65536):
                peer.sendall(data)

    with socket.create_server(("127.0.0.1", port)) as listener:
        while True:
            peer, _address = listener.accept()
            threading.Thread(target=echo, args=(peer,), daemon=True).start()


def rounds_on(server, mode):
    rounds, block = 0, b"x" * 64
    while mode != "not-earned" or rounds < ROUNDS_FEW:
        server.sendall(block)
        left = len(block)
        while left:
            left -= len(server.recv(left))
        rounds += 1
        if rounds % 16 == 0:
            select.select([], [], [], 0.001)  # room for others: the reasons are to be read meanwhile
    select.select([], [], [])


def connect(port, mode):
    with socket.create_connection(("127.0.0.1", port)) as server:
        if mode == "inherited":
            server.set_inheritable(True)
            os.execv(sys.executable, [sys.executable, "-B", sys.argv[0], "resume", str(server.fileno())])
        MODES.get(mode, lambda _peer: None)(server)
        rounds_on(server, mode)


def resume(fd, mode):
    """What another program goes on with, that was executed with the connection open."""
    rounds_on(socket.socket(fileno=fd), mode)


{"serve": serve, "connect": connect, "resume": resume}[sys.argv[1]](int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "")
