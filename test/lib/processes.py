"""What test scripts and measurements do with processes: start them so that they always end, find
what they started, wait for them, give them ports and an environment.
"""
import ctypes
import os
import random
import signal
import time

PYTHON = "/usr/bin/python3"
LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CRASHES = {-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, -signal.SIGILL, -signal.SIGFPE,
           -signal.SIGTRAP, -signal.SIGSYS}


class Failure(Exception):
    """A program did something that it must not, or did not do what it must."""


def dies_with_parent(how=signal.SIGKILL):
    """A preexec_fn: the process gets this signal when its parent ends."""
    parent = os.getpid()

    def before_exec():
        LIBC.prctl(PR_SET_PDEATHSIG, how, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(127)
    return before_exec


def adopt_orphans():
    """Processes whose parent ends become children of this one, so that it finds daemons too."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root):
    """Pids of all processes below root."""
    children = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        children.setdefault(parent, []).append(int(name))
    found, todo = [], [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def until(condition, seconds, what):
    """Polls a condition until it holds, and returns its value; there is a deadline, never a fixed
    sleep.
    """
    deadline = time.monotonic() + seconds
    pause = 0.001
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failure(f"waited {seconds} s for: {what}")
        time.sleep(pause)
        pause = min(0.05, pause * 2)


# ---- ports ---------------------------------------------------------------------------------------
def ports_in(table):
    """The ports of the listeners in the text of a /proc/net/tcp."""
    lines = [line.split() for line in table.splitlines()[1:]]
    return {int(words[1].rsplit(":", 1)[1], 16) for words in lines if words[3] == "0A"}


def listening_ports(pid="self"):
    """In the network namespace of that process. Asks /proc instead of connecting, which would add a
    stream at the server.
    """
    ports = set()
    for table in (f"/proc/{pid}/net/tcp", f"/proc/{pid}/net/tcp6"):
        try:
            with open(table) as file:
                ports |= ports_in(file.read())
        except FileNotFoundError:
            pass
    return ports


def free_port(taken=()):
    """A port at which no program listens, below the ephemeral range so that no client socket can
    take it; not one of those taken.
    """
    listening = listening_ports()
    while True:
        port = random.randrange(12000, 32000)
        if port not in listening and port not in taken:
            return port


# ---- environments and files ----------------------------------------------------------------------
def environment(without, library=None, stat_file=None, **more):
    """This process's environment without LD_PRELOAD and the names for which without() is true; with
    the library, if there is one, and the file in which it leaves its statistics.
    """
    env = {name: value for name, value in os.environ.items()
           if name != "LD_PRELOAD" and not without(name)}
    if library:
        env.update(LD_PRELOAD=str(library), RSOCK_STAT_FILE=str(stat_file), **more)
    return env


def tail_of(path, size):
    """The last bytes of a file, as text."""
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - size))
        return file.read().decode(errors="replace")
