#!/usr/bin/python3 -B
"""A user that has no uid in the program's user namespace is shown to the program as the overflow
uid; that uid must not be taken for the program's own user.
"""
import fcntl
import os
import pathlib
import re
import socket
import struct
import sys

from lib.harness import case, main
from peers import private_shm

OVERFLOW = 65534
OTHER = 33  # has no uid in the namespace
HELLO, SEGMENT_BYTES, ID_COUNT, SLOT_BYTES = 1, 2155880448, 65536, 32768
VERSIONS = pathlib.Path(__file__).parents[2] / "include" / "rsock" / "version.h"
F_ADD_SEALS = 1033

# Runs a program in a new user namespace with that map, as that user.
INSIDE = """
import ctypes, os, sys
LIBC, (first, outer, count, uid), program = ctypes.CDLL(None), sys.argv[1:5], sys.argv[5:]
ready, go = os.pipe(), os.pipe()
pid = os.fork()
if pid:
    os.read(ready[0], 1)
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{pid}/{name}", "w") as file:
            file.write(f"{first} {outer} {count}")
    os.write(go[1], b"x")
    os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
assert LIBC.unshare(0x10000000) == 0
os.write(ready[1], b"x")
os.read(go[0], 1)
os.setgroups([])
os.setresgid(int(uid), int(uid), int(uid))
os.setresuid(int(uid), int(uid), int(uid))
os.execvp(program[0], program)
"""


def listeners(pid):
    """Abstract names of the process's listeners."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            inodes.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            pass
    with open("/proc/net/unix") as file:
        rows = [line.split() for line in file]
    return [row[7][1:] for row in rows if len(row) > 7 and row[7].startswith("@rsock-")
            and f"socket:[{row[6]}]" in inodes]


def link_magic():
    """Of messages of a link: letters, and the version in two digits."""
    version = int(re.search(r"RSK_LINK_VERSION \((\d+)", VERSIONS.read_text())[1])
    return int.from_bytes(b"%02d" % version, "big") | int.from_bytes(b"knlrsk", "big") << 16


def dial(name):
    """Performs the link handshake as a process of the same user would; True if the answer is a
    segment and doorbells.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as guest:
        guest.settimeout(10)
        guest.connect("\0" + name)
        segment = os.memfd_create("x", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(segment, SEGMENT_BYTES)
        fcntl.fcntl(segment, F_ADD_SEALS, 7)
        fds = [segment] + [os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK) for _ in range(8)]
        message = struct.pack("<QIIQII", link_magic(), HELLO, 0, SEGMENT_BYTES, ID_COUNT,
                              SLOT_BYTES).ljust(160, b"\0")
        try:
            socket.send_fds(guest, [message], fds)
            data, answer, _flags, _address = socket.recv_fds(guest, 160, 16)
        except ConnectionError:
            data, answer = b"", []
        for fd in fds + list(answer):
            os.close(fd)
        return bool(data) and len(answer) == 9


def dial_as(uid, name):
    """The same as another user, in a process of its own."""
    pid = os.fork()
    if not pid:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os._exit(0 if dial(name) else 1)
        except BaseException as error:  # pylint: disable=broad-except
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(2)
    return {0: True, 1: False}[os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]


def victim(t, words):
    """A server with a client of its own user, so that it listens for other processes of that user.
    Returns both and the listener's name.
    """
    program = os.path.join(t.bin, "fault_hostile")
    env = {"RSOCK_DAEMON": ""}
    server = t.spawn([*words, program, "serve", "poll"], name="victim", stdin="pipe", stdout="pipe",
                     env=env)
    port = int(server.stdout.readline())
    client = t.spawn([*words, program, "honest", port, 4, 1], name="client", env=env)
    pids = {server.pid, *map(int, children(server.pid))}
    met = []

    def listens():
        met[:] = [name for pid in pids for name in listeners(pid)]
        return met
    t.until(listens, 10, "the victim to listen for peers")
    return server, client, met[0]


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return file.read().split()


def attacked(t, words, let_in):
    private_shm()
    server, client, name = victim(t, words)
    t.check(re.fullmatch(r"rsock-[0-9a-f]+-[0-9a-f]{16}", name), name)
    t.equal(dial_as(OTHER, name), let_in, f"user {OTHER} let in at {name}")
    t.wait(client, 30)
    server.stdin.close()
    t.wait(server, 10)


def as_user(uid):
    return ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"]


def inside(first, outer, count, uid):
    return ["/usr/bin/python3", "-c", INSIDE, first, outer, count, uid]


@case(60)
def same_user_is_let_in(t):
    """Shows that the attack succeeds where it may, so that the other cases mean something."""
    attacked(t, as_user(OTHER), True)


@case(60)
def other_user_is_not(t):
    attacked(t, as_user(1000), False)


@case(60)
def overflow_uid_of_a_namespace(t):
    """The program is user 65534 of a namespace in which the other user has no uid."""
    attacked(t, inside(0, 100000, 65536, OVERFLOW), False)


@case(60)
def overflow_uid_in_a_namespace_of_all(t):
    """In that namespace uid 65534 is a real user; the other user is a different one."""
    attacked(t, inside(0, 0, 4294967295, OVERFLOW), False)


@case(60)
def overflow_uid_of_the_host(t):
    """Processes of the user nobody find each other as usual."""
    private_shm()
    t.stats.words.append("--all")
    server, client, _name = victim(t, as_user(OVERFLOW))
    t.until(lambda: t.stats.sample() or any(s.tx_ring_bytes for s in t.stats.streams.values()), 20,
            "to go direct")
    t.wait(client, 30)
    server.stdin.close()
    t.wait(server, 10)


if __name__ == "__main__":
    sys.exit(main())
