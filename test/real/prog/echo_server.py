"""An echo server of the kind that the argument names (real_python.py); ends on SIGINT."""
import asyncio
import os
import select
import signal
import socket
import socketserver
import sys

KIND, PORT = sys.argv[1], int(sys.argv[2])
ADDRESS = ("127.0.0.1", PORT)


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)


class Forking(socketserver.ForkingTCPServer):
    allow_reuse_address = True
    request_queue_size = 64


class Threading(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64


async def asyncio_echo():
    async def handle(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()
        await writer.wait_closed()
    server = await asyncio.start_server(handle, *ADDRESS)
    await server.serve_forever()


class Events:
    """One loop over select(), poll() or epoll (edge-triggered); keeps what a client does not take
    yet.
    """

    def __init__(self, kind):
        self.kind = kind
        self.listener = socket.create_server(ADDRESS, backlog=64)
        self.listener.setblocking(False)
        self.peers = {}
        self.pending = {}
        if kind == "poll":
            self.poll = select.poll()
            self.poll.register(self.listener, select.POLLIN)
        if kind == "epoll":
            self.poll = select.epoll()
            self.poll.register(self.listener, select.EPOLLIN)

    def ready(self):
        """(readable, writable) sets of fds."""
        if self.kind == "select":
            reads = [self.listener.fileno()] + [fd for fd in self.peers if not self.pending[fd]]
            writes = [fd for fd in self.peers if self.pending[fd]]
            return [set(fds) for fds in select.select(reads, writes, [])[:2]]
        events = self.poll.poll()
        reads = {fd for fd, event in events if event & ~(select.POLLOUT)}
        return reads, {fd for fd, event in events if event & select.POLLOUT}

    def add(self):
        while True:
            try:
                peer, _address = self.listener.accept()
            except BlockingIOError:
                return
            peer.setblocking(False)
            fd = peer.fileno()
            self.peers[fd], self.pending[fd] = peer, b""
            if self.kind == "poll":
                self.poll.register(fd, select.POLLIN)
            if self.kind == "epoll":
                self.poll.register(fd, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)

    def remove(self, fd):
        if self.kind != "select":
            self.poll.unregister(fd)
        self.peers.pop(fd).close()
        del self.pending[fd]

    def serve(self, fd):
        """Moves bytes until either side of the socket would block; True if the peer has closed."""
        peer = self.peers[fd]
        while True:
            if self.pending[fd]:
                try:
                    sent = peer.send(self.pending[fd])
                except BlockingIOError:
                    break
                self.pending[fd] = self.pending[fd][sent:]
                continue
            try:
                data = peer.recv(65536)
            except BlockingIOError:
                break
            if not data:
                return True
            self.pending[fd] = data
        if self.kind == "poll":
            self.poll.modify(fd, select.POLLOUT if self.pending[fd] else select.POLLIN)
        return False

    def run(self):
        while True:
            reads, writes = self.ready()
            for fd in reads | writes:
                if fd == self.listener.fileno():
                    self.add()
                elif fd in self.peers and self.serve(fd):
                    self.remove(fd)


def prefork():
    listener = socket.create_server(ADDRESS, backlog=64)
    children = []
    for _ in range(4):
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            while True:
                peer, _address = listener.accept()
                with peer:
                    while data := peer.recv(65536):
                        peer.sendall(data)
        children.append(pid)
    try:
        signal.pause()
    finally:
        for pid in children:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)


try:
    if KIND == "asyncio":
        asyncio.run(asyncio_echo())
    elif KIND == "prefork":
        prefork()
    elif KIND in ("forking", "threading"):
        (Forking if KIND == "forking" else Threading)(ADDRESS, Handler).serve_forever(0.05)
    else:
        Events(KIND).run()
except KeyboardInterrupt:
    pass
