"""Messages of rsock/local.h, as any program could send them to rsockd, or as a program that
pretends to be rsockd could send them to a process.
"""
import contextlib
import encodings.idna  # noqa: F401  as another user it could perhaps not be read
import os
import socket
import struct

MAGIC = 0x36306C6B636F7372
(HELLO, LOOKUP, LISTEN, LOST, RENDEZVOUS, ANSWER, RESOLVE, RDMA, LINK, UNLINK,
 PORT_TABLE, QOS) = range(1, 13)
CONNECTING, QUIET, AGAIN, ABLE, NO_SHM, REFUSED, PAIR, BY_SYN = 1, 2, 4, 8, 16, 64, 128, 256
BYTES = 160
SO_COOKIE, SO_NETNS_COOKIE = 57, 71
LAYOUT = struct.Struct("<QII Q16s16sHHHHII QQiiII16sHHi16s QBB6x")
FIELDS = ("magic", "type", "flags", "netns", "local", "peer", "local_port", "peer_port", "family",
          "pad", "scope",
          "pad2", "cookie", "link", "fd", "pid", "uid", "reason", "ip", "port", "ipv", "peer_fd",
          "from_ip", "rate", "dscp", "priority")
assert LAYOUT.size == BYTES


def pack(kind, **fields):
    return LAYOUT.pack(*({"magic": MAGIC, "type": kind, **fields}.get(
        name, b"" if name in ("local", "peer", "ip", "from_ip") else 0) for name in FIELDS))


def unpack(data):
    return dict(zip(FIELDS, LAYOUT.unpack(data)))


@contextlib.contextmanager
def as_user(uid):
    """Sockets made and connected inside the block are that user's."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def option64(sock, option):
    return struct.unpack("Q", sock.getsockopt(socket.SOL_SOCKET, option, 8))[0]


def name_of(sock):
    """Fields that name a connected IPv4 socket."""
    (local, local_port), (peer, peer_port) = sock.getsockname(), sock.getpeername()
    return {"netns": option64(sock, SO_NETNS_COOKIE), "local": socket.inet_aton(local),
            "local_port": local_port,
            "peer": socket.inet_aton(peer), "peer_port": peer_port, "family": socket.AF_INET,
            "cookie": option64(sock, SO_COOKIE), "fd": sock.fileno()}


HERE = {}  # path of an rsockd's socket: what enters its network namespace (netlab.py)


class Client:
    """A process at rsockd's socket, in rsockd's network namespace, or in the current one."""

    def __init__(self, path, uid=0, elsewhere=False):
        inside = contextlib.nullcontext if elsewhere else HERE.get(path, contextlib.nullcontext)
        with inside(), as_user(uid):
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.socket.settimeout(20)
            self.socket.connect(path)

    def say(self, kind, fds=(), **fields):
        socket.send_fds(self.socket, [pack(kind, **fields)], list(fds))

    def look_up(self, sock, connecting, **wrong):
        self.say(LOOKUP, **{**name_of(sock), "flags": CONNECTING if connecting else 0, **wrong})

    def hear(self, port_tables=False, qos=False):
        """A message and its descriptors; None when rsockd closed the connection. A port table,
        which rsockd sends at some time to a process that is able to accept rails, is dropped unless
        port_tables is true; so is the service that a session gets, unless qos is true.
        """
        while True:
            try:
                data, fds, _flags, _address = socket.recv_fds(self.socket, BYTES, 4)
            except ConnectionResetError:
                return None, []
            message = unpack(data) if data else None
            asked = {PORT_TABLE: port_tables, QOS: qos}
            if message is None or asked.get(message["type"], True):
                return message, fds
            for fd in fds:
                os.close(fd)

    def gone(self):
        message, _fds = self.hear()
        return message is None

    def close(self):
        self.socket.close()
