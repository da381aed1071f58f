"""One end of a connection that stays on TCP for a reason (tool_reasons.py): reasons_end.py
serve|connect PORT [MODE].

serve: an echo server, one thread for each connection. connect: round trips of 64 bytes for as long
as its input is open. MODE is done to the connection before the first byte.
"""
import contextlib
import ctypes
import fcntl
import os
import resource
import select
import socket
import struct
import subprocess
import sys
import threading

SO_TIMESTAMPING, SOF_TIMESTAMPING_RX_HARDWARE = 37, 4
TCP_REPAIR, TCP_FASTOPEN_CONNECT, TCP_ULP, TCP_ZEROCOPY_RECEIVE = 19, 30, 31, 35
ROUNDS_FEW = 3
KEPT, COMMON = [], []
LIBC = ctypes.CDLL(None)
UNSEEN = ctypes.CDLL("libc.so.6")  # libc's own functions, whatever is preloaded


def shared(peer):
    """A child has the socket as well, and does nothing, until this process is gone."""
    read, write = os.pipe()
    if not os.fork():
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    KEPT.append(write)


def zerocopy_receive(peer):
    with contextlib.suppress(OSError):
        peer.getsockopt(socket.IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, 40)


def passed(peer):
    ours, theirs = socket.socketpair()
    socket.send_fds(ours, [b"x"], [peer.fileno()])
    KEPT.extend((ours, theirs))


def epoll_exclusive(peer):
    epoll = select.epoll()
    epoll.register(peer.fileno(), select.EPOLLIN | select.EPOLLEXCLUSIVE)
    KEPT.append(epoll)


def twin_in_epoll(peer):
    """Its number is closed while it is in a set; a copy is kept, and used."""
    epoll = select.epoll()
    epoll.register(peer.fileno(), select.EPOLLIN)
    twin = socket.socket(fileno=os.dup(peer.fileno()))
    KEPT.append(epoll)
    os.close(peer.detach())
    return twin


def epoll_shared(peer):
    """A child also has the set, but not the socket; and the set is polled itself."""
    epoll = select.epoll()
    outer = select.poll()
    outer.register(epoll.fileno(), select.POLLIN)
    read, write = os.pipe()
    if not os.fork():
        os.close(write)
        peer.close()
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    outer.poll(0)
    epoll.register(peer.fileno(), select.EPOLLIN)
    KEPT.extend((epoll, write))


def epoll_common(peer):
    """All connections in one set, on which no thread waits."""
    if not COMMON:
        COMMON.append(select.epoll())
    COMMON[0].register(peer.fileno(), select.EPOLLIN)


def epoll_tag(peer):
    """The program registers as its data the tag that the library has put in place of other data;
    /proc shows it.
    """
    epoll_common(peer)
    first = COMMON[1:2] or COMMON.append(peer)
    if not first:
        return
    with open(f"/proc/self/fdinfo/{COMMON[0].fileno()}") as file:
        rows = [line.split() for line in file if line.startswith("tfd:")]
    ours = {str(first[0].fileno()), str(peer.fileno())}
    tags = [int(row[5], 16) for row in rows if row[1] not in ours]
    event = struct.pack("=IQ", select.EPOLLIN, tags[0])
    LIBC.epoll_ctl(COMMON[0].fileno(), 3, peer.fileno(), event)  # EPOLL_CTL_MOD


def executed(peer):
    """A child executes a program that inherits the socket and does not use it. With the library it
    would have a record of its own.
    """
    peer.set_inheritable(True)
    KEPT.append(subprocess.Popen(["sleep", "1000"], close_fds=False,
                                 env={**os.environ, "RSOCK_DISABLE": "1"}))


def spliced(peer):
    read, write = os.pipe()
    os.write(write, b"s")
    os.splice(read, peer.fileno(), 1)


def tried(peer, *option):
    """Sets an option that this kernel may not have, or may refuse."""
    try:
        peer.setsockopt(*option)
    except OSError:
        pass


def little_memory(_peer):
    """Limits the address space so that the library cannot map anything; the program itself has
    enough.
    """
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (64 << 10),
                                            resource.getrlimit(resource.RLIMIT_AS)[1]))


def few_descriptors(_peer):
    """Limits descriptors so that the lowest free number is beyond the limit."""
    free = os.open("/dev/null", os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE,
                       (free, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


MODES = {
    "epoll-closed": twin_in_epoll,
    "epoll-common": epoll_common,
    "epoll-shared": epoll_shared,
    "epoll-tag": epoll_tag,
    "exec": executed,
    "fd-limit": few_descriptors,
    "ktls": lambda peer: tried(peer, socket.IPPROTO_TCP, TCP_ULP, b"tls"),
    "memory": little_memory,
    "position-mismatch": lambda peer: UNSEEN.send(peer.fileno(), b"p", 1, 0),
    "splice": spliced,
    # neither on nor off
    "unsupported": lambda peer: tried(peer, socket.IPPROTO_TCP, TCP_REPAIR, 7),
    "async": lambda peer: fcntl.fcntl(peer, fcntl.F_SETFL,
                                      fcntl.fcntl(peer, fcntl.F_GETFL) | os.O_ASYNC),
    "epoll-exclusive": epoll_exclusive,
    "messages": lambda peer: peer.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING,
                                             SOF_TIMESTAMPING_RX_HARDWARE),
    "oob": lambda peer: peer.send(b"u", socket.MSG_OOB),
    "passed": passed,
    "shared-holder": shared,
    "stdio": lambda peer: KEPT.append(os.fdopen(os.dup(peer.fileno()), "rb"))
    or os.dup2(peer.fileno(), 0),
    "zerocopy": zerocopy_receive,
}


def serve(port, mode):
    def echo(peer):
        other = MODES.get(mode, lambda _peer: None)(peer)
        with other if isinstance(other, socket.socket) else peer as peer:
            while data := peer.recv(65536):
                peer.sendall(data)

    with socket.create_server(("127.0.0.1", port)) as listener:
        while True:
            try:
                peer, _address = listener.accept()
            except OSError:  # no descriptor is left for the connection
                select.select([], [], [])
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
            # leaves the processor to others: the reasons are read meanwhile
            select.select([], [], [], 0.001)
    select.select([], [], [])


def connect(port, mode):
    with socket.socket() as server:
        if mode == "fastopen":
            server.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
        server.connect(("127.0.0.1", port))
        if mode == "inherited":
            server.set_inheritable(True)
            # The next program's library does not know what is registered in the set.
            kept = select.epoll()
            os.set_inheritable(kept.fileno(), True)
            os.execv(sys.executable,
                     [sys.executable, "-B", sys.argv[0], "resume", str(server.fileno())])
        other = MODES.get(mode, lambda _peer: None)(server)
        rounds_on(other if isinstance(other, socket.socket) else server, mode)


def resume(fd, mode):
    """Continues in the program that was executed with the connection open."""
    rounds_on(socket.socket(fileno=fd), mode)


{"serve": serve, "connect": connect,
 "resume": resume}[sys.argv[1]](int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "")
