"""Runs in a guest and executes the lab's orders: programs, files, requests to sockets. guest.py
sends them.

One virtio-serial port is one session; a line is one JSON object. With --stdio, on a real host,
standard input and output are the only session; large data goes over them as well, and at their end
the agent ends all that it has started. Requests have "op" and "id"; their answers have that id, and
"error" on failure. Events are sent unasked: output of programs with pipes, ends of programs. A
session begins with "hello" and a word that comes back, so that what an earlier session left in the
port is not taken for an answer; programs that an earlier session left running are killed. Imports
only modules that load quickly: a guest is a slow machine.
"""
import binascii
import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
from _queue import SimpleQueue  # the module queue itself loads slowly

STDIO = "--stdio" in sys.argv
CGROUPS = "/sys/fs/cgroup/rsock-lab" if STDIO else "/sys/fs/cgroup"
OUTPUT = "/run/rsock-lab/output" if STDIO else "/run/output"
SHARE = None if STDIO else "/run/lab"
SMALL = 1 << 16  # bytes; larger data goes through the share
ENVIRONMENT = {
    "PATH": "/opt/rsock/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": os.path.expanduser("~root"),
               "LC_ALL": "C.UTF-8", "TERM": "dumb", "TMPDIR": "/tmp"}


def decode(text):
    return binascii.a2b_base64(text)


def encode(data):
    return binascii.b2a_base64(data, newline=False).decode()


class Child:
    """A program that a session started. Pipes are our file descriptors, -1 if there are none."""

    def __init__(self, session, number, keep):
        self.session, self.number, self.keep = session, number, keep
        self.pid, self.status = 0, None
        self.stdin, self.todo, self.close_stdin = -1, b"", False
        self.pipes = {}  # fd -> "out" or "err"


class Session:
    """One port. fd stays open; the other end connects and disconnects."""

    def __init__(self, fd, number):
        self.fd = fd
        self.number = number
        self.cgroup = f"{CGROUPS}/session{number}"
        os.makedirs(self.cgroup, exist_ok=True)
        self.input, self.output, self.there = b"", bytearray(), False
        # SIGIO when data comes, and when the other end connects or disconnects.
        fcntl.fcntl(self.fd, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(self.fd, fcntl.F_SETFL, fcntl.fcntl(self.fd, fcntl.F_GETFL) | os.O_ASYNC)

    def say(self, message):
        self.output += json.dumps(message).encode() + b"\n"


def stdio():
    """A descriptor that reads from standard input and writes to standard output; either end of file
    hangs it up.
    """
    ours, theirs = socket.socketpair()
    ours.setblocking(False)

    def pump(read, write):
        try:
            while data := read(SMALL):
                while data:
                    data = data[write(data):]
        except OSError:
            pass
        theirs.shutdown(socket.SHUT_RDWR)
    for read, write in ((lambda size: os.read(0, size), theirs.send),
                        (theirs.recv, lambda data: os.write(1, data))):
        threading.Thread(target=pump, args=(read, write), daemon=True).start()
    return ours.detach()


def kill_cgroup(path, seconds):
    """Kills all processes in it; returns those that do not end."""
    deadline = time.monotonic() + seconds
    while True:
        with open(f"{path}/cgroup.procs") as file:
            left = file.read().split()
        if not left or time.monotonic() > deadline:
            return left
        with open(f"{path}/cgroup.kill", "w") as file:
            file.write("1")
        time.sleep(0.02)


class Agent:
    def __init__(self):
        os.makedirs(OUTPUT, exist_ok=True)
        self.keep_cgroup = f"{CGROUPS}/kept"
        os.makedirs(self.keep_cgroup, exist_ok=True)
        self.children, self.count = {}, 0
        self.wake_in, self.wake_out = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.later = SimpleQueue()  # (session, message) of threads
        signal.set_wakeup_fd(self.wake_out, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGIO):
            signal.signal(number, lambda *_: None)
        if STDIO:
            self.sessions = [Session(stdio(), os.getpid())]
        else:
            self.sessions = [Session(os.open(f"/dev/{name}",
                                             os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC), number)
                             for number, name in enumerate(self.ports())]

    @staticmethod
    def ports():
        base, found = "/sys/class/virtio-ports", []
        while not found:
            for name in os.listdir(base) if os.path.isdir(base) else []:
                try:
                    with open(f"{base}/{name}/name") as file:
                        found.append((file.read().strip(), name))
                except OSError:
                    pass
            if not found or len(found) < Agent.wanted():
                found = []
                time.sleep(0.01)
        return [name for _, name in sorted(found)]

    @staticmethod
    def wanted():
        with open("/proc/cmdline") as file:
            return int(next(word for word in file.read().split() if word.startswith("ports="))[6:])

    # ---- programs ------------------------------------------------------------------------------
    def do_start(self, session, order):
        """argv; env: added to ours; cwd; user: a number; limits: {"MEMLOCK": bytes}; stdin: base64,
        "pipe" or nothing; stdout, stderr: "file" or "pipe"; keep: it outlives the session.
        """
        self.count += 1
        child = Child(session, self.count, order.get("keep", False))
        base = f"{OUTPUT}/{self.count}"
        ours, theirs = {}, {}
        failed_in, failed_out = os.pipe2(os.O_CLOEXEC)
        if order.get("stdin") == "pipe":
            theirs[0], child.stdin = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(child.stdin, False)
        elif order.get("stdin") is not None:
            with open(base + ".in", "wb") as file:
                file.write(decode(order["stdin"]))
            theirs[0] = os.open(base + ".in", os.O_RDONLY | os.O_CLOEXEC)
        else:
            theirs[0] = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        for fd, which in ((1, "out"), (2, "err")):
            if order.get("std" + which) == "pipe":
                end, theirs[fd] = os.pipe2(os.O_CLOEXEC)
                os.set_blocking(end, False)
                ours[end] = which
            else:
                theirs[fd] = os.open(f"{base}.{which}",
                                     os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        pid = os.fork()
        if pid == 0:
            try:
                self.become(child, order, theirs)
            # whatever the error is, this child must not go on as the agent
            except BaseException as error:
                os.write(failed_out, f"{order['argv'][0]}: {error}".encode())
            os._exit(127)
        os.close(failed_out)
        for fd in theirs.values():
            os.close(fd)
        failed = os.read(failed_in, 4096).decode()
        os.close(failed_in)
        if failed:
            os.waitpid(pid, 0)
            for fd in [*ours, child.stdin]:
                if fd >= 0:
                    os.close(fd)
            raise OSError(errno.ENOEXEC, failed)
        child.pid, child.pipes = pid, ours
        self.children[child.number] = child
        return {"handle": child.number, "pid": pid, "base": base}

    def become(self, child, order, fds):
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in range(1, signal.NSIG):
            if signal.getsignal(number) not in (signal.SIG_DFL, None):
                signal.signal(number, signal.SIG_DFL)
        with open(f"{self.keep_cgroup if child.keep else child.session.cgroup}/cgroup.procs",
                  "w") as file:
            file.write("0")
        # Duplicates them above the numbers that they go to.
        high = {fd: fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, 10) for fd, source in fds.items()}
        for fd, source in high.items():
            os.dup2(source, fd)
        for name, value in (order.get("limits") or {}).items():
            resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))
        os.chdir(order.get("cwd") or "/tmp")
        user = order.get("user")
        if user is not None:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        os.execvpe(order["argv"][0], order["argv"], {**ENVIRONMENT, **(order.get("env") or {})})

    def reap(self):
        for child in [child for child in self.children.values() if child.status is None]:
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                child.status = os.waitstatus_to_exitcode(status)
                self.shut_stdin(child)
                self.ended(child)

    def ended(self, child):
        """Reports its end after all its output was reported. Other processes may hold the pipes for
        longer, so it does not wait for their end of file.
        """
        for fd in list(child.pipes):
            self.pump(child, fd)
        if child.session:
            child.session.say({"event": "exit", "handle": child.number, "rc": child.status})
        if not child.pipes:
            self.children.pop(child.number, None)

    def pump(self, child, fd):
        while True:
            try:
                data = os.read(fd, SMALL)
            except BlockingIOError:
                return
            if not data:
                os.close(fd)
                which = child.pipes.pop(fd)
                if child.session:
                    child.session.say({"event": which, "handle": child.number, "end": True})
                if child.status is not None and not child.pipes:
                    self.children.pop(child.number, None)
                return
            if child.session:
                child.session.say({"event": child.pipes[fd], "handle": child.number,
                                   "data": encode(data)})

    def shut_stdin(self, child):
        if child.stdin >= 0:
            os.close(child.stdin)
            child.stdin = -1

    def feed(self, child):
        try:
            while child.todo:
                child.todo = child.todo[os.write(child.stdin, child.todo):]
            if child.close_stdin:
                self.shut_stdin(child)
        except BlockingIOError:
            pass
        except OSError:  # it does not read any more
            child.todo = b""
            self.shut_stdin(child)

    def do_input(self, _session, order):
        child = self.children.get(order["handle"])
        if child and child.stdin >= 0:
            child.todo += decode(order.get("data", ""))
            child.close_stdin = order.get("close", False)
            self.feed(child)
        return {}

    def do_kill(self, _session, order):
        """A program that has ended is not killed: its pid may belong to another process now."""
        child = self.children.get(order["handle"])
        if child and child.status is None:
            os.kill(child.pid, order["sig"])
            return {"sent": True}
        return {"sent": False}

    def do_reset(self, session, order):
        """Ends what the session started, and all descendants of that."""
        paths = [session.cgroup] + ([self.keep_cgroup] if order.get("kept") else [])
        seconds = order.get("seconds", 10)
        return lambda: {"left": [pid for path in paths for pid in kill_cgroup(path, seconds)]}

    def do_hello(self, session, order):
        for child in list(self.children.values()):
            if child.session is session:
                child.session = None
        left = kill_cgroup(session.cgroup, 5)
        with open("/proc/sys/kernel/random/boot_id") as file:
            return {"hello": order["word"], "boot": file.read().strip(), "left": left}

    # ---- files and sockets ---------------------------------------------------------------------
    def do_read(self, _session, order):
        """Large data goes to the share, and the answer says where."""
        with open(order["path"], "rb") as file:
            file.seek(order.get("offset", 0))
            data = file.read(SMALL + 1)
            if len(data) <= SMALL or not SHARE:
                return {"data": encode(data + file.read())}
            name = f"from-guest.{os.getpid()}.{time.monotonic_ns()}"
            with open(f"{SHARE}/{name}", "wb") as copy:
                while data:
                    copy.write(data)
                    data = file.read(1 << 19)
            return {"share": name}

    def do_write(self, _session, order):
        """share: the file is there; or data. In pieces: all but the first have more: True, all but
        the last goes_on: True.
        """
        folder = os.path.dirname(order["path"])
        if folder:
            os.makedirs(folder, exist_ok=True)
        temporary = f"{order['path']}.new"
        with open(temporary, "ab" if order.get("more") else "wb") as file:
            if "share" in order:
                with open(f"{SHARE}/{order['share']}", "rb") as source:
                    while block := source.read(1 << 19):
                        file.write(block)
            else:
                file.write(decode(order["data"]))
        if order.get("goes_on"):
            return {}
        os.chmod(temporary, order.get("mode", 0o644))
        os.rename(temporary, order["path"])
        return {}

    def do_folder(self, _session, order):
        """{name: content} of the readable files in a folder."""
        found = {}
        for name in os.listdir(order["path"]) if os.path.isdir(order["path"]) else []:
            try:
                with open(os.path.join(order["path"], name), "rb") as file:
                    found[name] = encode(file.read())
            except OSError:
                pass
        return {"files": found}

    def do_ask(self, _session, order):
        """Sends data to a local socket, and answers with what comes until its end."""
        def talk():
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(order.get("timeout", 60))
                client.connect(order["socket"])
                client.sendall(decode(order["data"]))
                parts = []
                while part := client.recv(1 << 16):
                    parts.append(part)
                return {"data": encode(b"".join(parts))}
        return talk

    def do_started(self, _session, _order):
        return {"started": STDIO or os.path.exists("/run/started")}

    # ---- the loop ------------------------------------------------------------------------------
    def order(self, session, line):
        try:
            order = json.loads(line)
            do = getattr(self, "do_" + order["op"])
        except (ValueError, KeyError, AttributeError, TypeError):
            return  # half a line of an earlier session
        answer = self.attempt(lambda: do(session, order))
        if callable(answer):
            threading.Thread(target=lambda: self.answer_later(session, order, answer),
                             daemon=True).start()
        else:
            session.say({"id": order["id"], **answer})

    @staticmethod
    def attempt(do):
        try:
            return do()
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}",
                    "errno": getattr(error, "errno", None)}

    def answer_later(self, session, order, do):
        self.later.put((session, {"id": order["id"], **self.attempt(do)}))
        os.write(self.wake_out, b"\0")

    def read_port(self, session):
        while True:
            try:
                data = os.read(session.fd, SMALL)
            except BlockingIOError:
                return
            if not data:
                return
            session.input += data
            *lines, session.input = session.input.split(b"\n")
            for line in lines:
                self.order(session, line)

    def write_port(self, session):
        try:
            while session.output:
                del session.output[:os.write(session.fd, session.output[:32768])]
        except BlockingIOError:
            pass

    def wait(self):
        """Waits; returns what is ready: [(fd, events)]. A port without a peer is left out until
        SIGIO shows a change.
        """
        poll = select.poll()
        poll.register(self.wake_in, select.POLLIN)
        for session in self.sessions:
            if session.there:
                poll.register(session.fd, select.POLLIN | (select.POLLOUT if session.output else 0))
        for child in self.children.values():
            for fd in child.pipes:
                poll.register(fd, select.POLLIN)
            if child.stdin >= 0 and child.todo:
                poll.register(child.stdin, select.POLLOUT)
        return dict(poll.poll())

    def run(self):
        looks = select.poll()
        for session in self.sessions:
            looks.register(session.fd, 0)
        while True:
            gone = {fd for fd, _ in looks.poll(0)}
            for session in self.sessions:
                if session.there and session.fd in gone:
                    self.attempt(lambda path=session.cgroup: kill_cgroup(path, 0))
                session.there = session.fd not in gone
                if not session.there:
                    session.input = b""
                    session.output.clear()
                    if STDIO:
                        self.attempt(lambda path=session.cgroup: kill_cgroup(path, 10))
                        self.attempt(lambda path=session.cgroup: os.rmdir(path))
                        return
            ready = self.wait()
            if self.wake_in in ready:
                try:
                    os.read(self.wake_in, 4096)
                except BlockingIOError:
                    pass
            while not self.later.empty():
                session, message = self.later.get()
                session.say(message)
            for child in list(self.children.values()):
                for fd in [fd for fd in child.pipes if fd in ready]:
                    self.pump(child, fd)
                if child.stdin in ready:
                    self.feed(child)
            self.reap()
            for session in self.sessions:
                if session.there:
                    self.read_port(session)
                    self.write_port(session)


Agent().run()
