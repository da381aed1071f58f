"""Runs one program of the differential fuzzer (differ.py, soak.py): starts its processes, gives
each its commands, collects the answers.
"""
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from .processes import adopt_orphans

PATIENCE_S = 7 * int(os.environ.get("DIFFER_SCALE", 1))  # longer than any timeout of the worker
PACE_MS = int(os.environ.get("DIFFER_PACE_MS", 0))


class Lost(Exception):
    """A process did not answer: it hangs, or is gone."""


class Run:
    """One run of a program. Owns its processes and its folder; close() ends and removes them."""

    def __init__(self, worker, env, tool=None):
        self.tool = tool
        self.folder = tempfile.mkdtemp(prefix="differ-")
        self.env = dict(env)
        self.worker = worker
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.folder + "/control")
        self.listener.listen(8)
        self.sockets, self.pids, self.fds, self.ports = {}, {}, {}, {}
        self.children = []
        self.answers = []
        adopt_orphans()
        if tool:
            self.env["RSOCK_STAT_FILE"] = self.folder + "/stat"
        for name in "AB":
            self.start(name)

    def start(self, name):
        self.children.append(subprocess.Popen(
            [self.worker, "start", self.folder, name], env=self.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=open(self.folder + "/stderr", "ab"), cwd=self.folder))
        self.hello()

    def hello(self):
        if not select.select([self.listener], [], [], PATIENCE_S)[0]:
            raise Lost("a process that should begin does not")
        sock, _ = self.listener.accept()
        creds = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        name = self.read(sock)
        if name in self.sockets:
            raise Lost("two processes of one name")
        self.sockets[name], self.pids[name] = sock, int.from_bytes(creds[:4], "little")
        self.fds.setdefault(name, {})
        return name

    @staticmethod
    def read(sock):
        if not select.select([sock], [], [], PATIENCE_S)[0]:
            raise Lost("HANG: no answer")
        data = sock.recv(4096)
        if not data:
            raise Lost("the process is gone")
        return data.decode(errors="replace").rstrip("\0")

    def ask(self, name, text):
        try:
            self.sockets[name].send(text.encode())
        except OSError as error:
            raise Lost("the process is gone") from error
        return self.read(self.sockets[name])

    def call(self, name, text):
        """Returns the answer and, separately, what is only for the controller; keeps descriptors'
        numbers for the operator.
        """
        answer, _, rest = self.ask(name, text).partition("#")
        words = text.split()
        if words[0] in ("connect", "accept", "dup", "take") and "fd=" in answer:
            handle = int(words[2] if words[0] == "dup" else words[1])
            self.fds[name][handle] = int(answer.split("fd=")[1].split()[0])
        return answer.strip(), rest.strip()

    def asleep(self, name, tid):
        """Waits until the thread sleeps in its call, at most a second: a thread may spin for
        longer.
        """
        path = f"/proc/{self.pids[name]}/task/{tid}/stat"
        until = time.monotonic() + 1
        while time.monotonic() < until:
            try:
                with open(path, encoding="ascii", errors="replace") as file:
                    if file.read().rsplit(")", 1)[1].split()[0] == "S":
                        return
            except OSError:
                return

    def until_state(self, name, wanted):
        until = time.monotonic() + 3
        while time.monotonic() < until:
            with open(f"/proc/{self.pids[name]}/stat", encoding="ascii", errors="replace") as file:
                if (file.read().rsplit(")", 1)[1].split()[0] in "Tt") == wanted:
                    return
        raise Lost("a signal has no effect")

    def command(self, command):
        """The answer of one command."""
        kind, name = command[0], command[1]
        if kind == "op":
            return self.call(name, command[2])[0]
        if kind == "connect":
            return self.call(name, f"connect {command[2]} {self.ports[command[3]]}")[0]
        if kind == "async":
            answer, tid = self.call(name, command[2])
            self.asleep(name, tid)
            return answer
        if kind == "fork":
            self.sockets[name].send(f"fork {command[2]}".encode())
            self.hello()
            self.fds[command[2]] = dict(self.fds[name])
            return self.read(self.sockets[name]) + ", " + self.read(self.sockets[command[2]])
        if kind == "exec":
            return self.ask(name, "exec")
        if kind == "stop":
            os.kill(self.pids[name], signal.SIGSTOP)
            self.until_state(name, True)
        elif kind == "cont":
            os.kill(self.pids[name], signal.SIGCONT)
            self.until_state(name, False)
        # a link takes time to be made, and the stream looks for it only in its own calls
        elif kind == "pace":
            time.sleep(PACE_MS / 1000 if self.tool else 0)
        elif kind == "kill":
            self.kill(name)
        elif kind == "operator" and self.tool:
            subprocess.run([self.tool, command[3], "--wait", "0",
                            f"{self.pids[name]}:{self.fds[name].get(command[2], -1)}"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=PATIENCE_S,
                           check=False)
        return "done"

    def kill(self, name):
        """Kills the process and waits until it is gone: the effects of its end on connections are
        complete then.
        """
        pid = self.pids.pop(name)
        os.kill(pid, signal.SIGKILL)
        self.sockets.pop(name).close()
        self.reap(pid)

    def reap(self, pid):
        for child in self.children:
            if child.pid == pid:
                child.wait(PATIENCE_S)
                return child.returncode
        try:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except ChildProcessError:  # another process's child: gone when nothing of it is left
            until = time.monotonic() + PATIENCE_S
            while os.path.exists(f"/proc/{pid}") and time.monotonic() < until:
                with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                    if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                        return 0
            return 0

    def begin(self):
        for handle, name in enumerate("AB"):
            answer, port = self.call(name, f"listen {handle}")
            self.ports[name] = int(port)

    def finish(self):
        """Lets every process end by itself; returns their statuses."""
        left = dict(self.pids)
        for name, pid in left.items():
            self.sockets[name].send(b"exit 0")
        codes = []
        for name, pid in sorted(left.items()):
            if select.select([self.sockets[name]], [], [], PATIENCE_S)[0]:
                codes.append(
                    f"{name}={self.reap(pid) if any(c.pid == pid for c in self.children) else 0}")
                self.pids.pop(name)
            else:
                codes.append(f"{name}=HANG at exit")
        return " ".join(codes)

    def stat(self):
        try:
            with open(self.folder + "/stat", encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def close(self):
        for pid in self.pids.values():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        for child in self.children:
            if child.poll() is None:
                child.kill()
                child.wait()
        for sock in [self.listener, *self.sockets.values()]:
            sock.close()
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break
        shutil.rmtree(self.folder, ignore_errors=True)


def late(command, answer):
    """True if the command had no effect and may be repeated: a change of path may need an answer
    from another host.
    """
    return command[0] == "op" and ("EAGAIN" in answer or command[2].split()[0] == "poll")


def run_commands(commands, worker, env, tool=None, trace=None, right=None):
    """Returns the answers, one for each command and one for the ends of the processes, and the
    statistics as text. The answers stop at a process that is lost. right: the right answers; a late
    one is waited for.
    """
    answers, stat = [], ""
    run = None
    try:
        run = Run(worker, env, tool)
        run.begin()
        for command in commands:
            answer, until = run.command(command), time.monotonic() + PATIENCE_S
            while (right and late(command, answer) and answer != right[len(answers)]
                   and time.monotonic() < until):
                answer = run.command(command)
            answers.append(answer)
            if trace:
                trace(command, answers[-1])
        answers.append(run.finish())
        stat = run.stat()
    except (Lost, OSError, subprocess.TimeoutExpired) as error:
        answers.append(str(error))
        if trace and len(answers) <= len(commands):
            trace(commands[len(answers) - 1], str(error))
    finally:
        if run:
            run.close()
    return answers, stat
