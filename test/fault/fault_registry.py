#!/usr/bin/python3 -B
"""The registry is only a hint: stale, overwritten, truncated, removed, another user's, or
impossible to create, all streams still work.

Each case runs in a mount namespace with a /dev/shm of its own, so that no other test sees the
damage.
"""
import contextlib
import os
import random
import stat
import subprocess
import sys
import threading

from lib.harness import case, main
from peers import Peer, both_ways, connect, pair, private_shm, warm

FOLDER = f"/dev/shm/rsock-{os.geteuid()}"
FILE = FOLDER + "/registry"
# include/rsock/registry.h
HEADER_BYTES, ENTRY_BYTES, ENTRY_MAGIC = 4096, 128, b"NESR"


def exchange(t, demand_direct=False, size=2_000_000):
    server, client, port = pair(t)
    warm(server, client)
    both_ways(server, client, size, size, ios=("edge", "poll"))
    t.stats.sample()
    server.finish()
    client.finish()
    if demand_direct:
        t.stats.direct(port, to_server=size, to_client=size, share=0.35)
    return port


class Scribbler:
    """A thread that damages the registry until it is told to stop; seeded."""

    def __init__(self, actions):
        self.random = random.Random(int(os.environ.get("RSOCK_SEED", "7")))
        self.actions = actions
        self.count = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over.wait(0.001):
            try:
                getattr(self, self.random.choice(self.actions))()
                self.count += 1
            except FileNotFoundError:
                pass

    def stop(self):
        self.over.set()
        self.thread.join()
        return self.count

    def scribble(self):
        with open(FILE, "rb+") as file:
            size = os.path.getsize(FILE)
            for _ in range(self.random.randrange(1, 200)):
                file.seek(self.random.randrange(max(1, size)))
                file.write(self.random.randbytes(self.random.randrange(1, 300)))

    def shuffle(self):
        """Moves valid entries to wrong places, duplicates them, and restores old ones."""
        with open(FILE, "rb+") as file:
            data = file.read()
            used = [at for at in range(0, len(data) - 127, 128) if any(data[at:at + 128])]
            for at in used:
                file.seek(self.random.choice(used))
                file.write(data[at:at + 128])

    def cut(self):
        os.truncate(FILE, self.random.choice((0, 1, 127, 4096, 100_000, 1 << 20)))

    def grow(self):
        os.truncate(FILE, 30 << 20)

    def forbid(self):
        os.chmod(FILE, self.random.choice((0, 0o400, 0o600, 0o666)))

    def remove(self):
        os.unlink(FILE)

    def remove_folder(self):
        os.unlink(FILE)
        with contextlib.suppress(OSError):  # a process has made the file anew
            os.rmdir(FOLDER)


def offers():
    with open(FILE, "rb") as file:
        entries = file.read()[HEADER_BYTES:]
    return sum(entries[at:at + 4] == ENTRY_MAGIC for at in range(0, len(entries), ENTRY_BYTES))


@case(60)
def offers_end_with_the_search(t):
    """An offer that somebody has accepted, or that was given up, is not found any more."""
    private_shm()
    server, client, port = pair(t)
    warm(server, client)
    both_ways(server, client, 2_000_000, 2_000_000)
    t.stats.sample()
    t.equal(offers(), 0, "offers of streams that are paired")
    server.finish()
    client.finish()
    t.stats.direct(port, to_server=2_000_000, to_client=2_000_000, share=0.35)
    t.equal(offers(), 0, "offers of processes that have ended")


def under_damage(t, actions, recovers):
    private_shm()
    exchange(t, demand_direct=True)
    t.stats.demand(os.path.exists(FILE), f"no registry at {FILE}")
    scribbler = Scribbler(actions)
    # Where the registry is removed each time, a new stream is needed to make it again: as many
    # streams as that needs, up to a limit.
    for number in range(200):
        exchange(t)
        if number >= 24 and scribbler.count > 100:
            break
    count = scribbler.stop()
    t.stats.demand(count > 100, f"only {count} acts of damage: was the registry there?")
    if recovers:
        for _ in range(3):
            exchange(t, demand_direct=True)


@case(90)
def scribbled_over(t):
    under_damage(t, ("scribble", "shuffle"), recovers=True)


@case(90)
def truncated(t):
    under_damage(t, ("cut", "grow", "scribble"), recovers=True)


@case(90)
def removed(t):
    under_damage(t, ("remove", "remove_folder", "forbid", "cut"), recovers=False)


@case(90)
def damaged_under_long_streams(t):
    """Streams that are promoted already are not affected."""
    private_shm()
    server, client, port = pair(t)
    warm(server, client)
    scribbler = Scribbler(("scribble", "cut", "remove"))
    size = 200_000_000
    both_ways(server, client, size, size, ios=("epoll", "block"), seconds=60)
    scribbler.stop()
    t.stats.sample()
    server.finish()
    client.finish()
    t.stats.direct(port, to_server=size, to_client=size, share=0.35)


@case(60)
def left_behind_by_killed_processes(t):
    """Processes are killed with their entries posted; the same ports are used again at once; later
    streams go direct.
    """
    private_shm()
    port = t.free_port()
    for turn in range(40):
        server, client = Peer(t, "server"), Peer(t, "client", preload=bool(turn % 4))
        server.ask("listening", "listen", port)
        server.order("accept", turn)
        client.ask("connected", "connect", port, turn)
        server.answer("connected")
        both_ways(server, client, 100_000, 100_000, chunk=1000)
        client.kill()
        server.kill()
    for _ in range(3):
        exchange(t, demand_direct=True)


@case(60)
def posted_by_many(t):
    """The file is full of entries: the stale ones are replaced."""
    private_shm()
    for _ in range(3):
        exchange(t, demand_direct=True)
    t.stats.demand(os.path.exists(FILE), f"no registry at {FILE}")
    if not os.path.exists(FILE):
        return
    with open(FILE, "rb+") as file:
        size = os.path.getsize(FILE)
        data = file.read()
        used = [data[at:at + 128] for at in range(0, size - 127, 128) if any(data[at:at + 128])]
        if used:
            file.seek(0)
            file.write((used[0] * (size // 128))[:size])
    for _ in range(3):
        exchange(t, demand_direct=True)


def untrusted(t, prepare, other_name=True):
    """Another name is used if there is one; what exists under the usual name is left as it is."""
    private_shm()
    prepare()
    before = os.lstat(FOLDER)
    for _ in range(3):
        port = exchange(t, demand_direct=other_name)
        for side in ("server", "client") if not other_name else ():
            t.stats.plain(port, side, bytes_moved=2_000_000)
    after = os.lstat(FOLDER)
    t.equal((after.st_ino, after.st_uid, after.st_mode),
            (before.st_ino, before.st_uid, before.st_mode), "the folder")


@case(60)
def folder_of_another_user(t):
    def prepare():
        os.mkdir(FOLDER, 0o777)
        os.chown(FOLDER, 65534, 65534)
    untrusted(t, prepare)
    t.equal(os.listdir(FOLDER), [], "entries in another user's folder")


@case(60)
def folder_open_to_all(t):
    def prepare():
        os.mkdir(FOLDER)
        os.chmod(FOLDER, 0o777)
    untrusted(t, prepare)
    t.equal(os.listdir(FOLDER), [], "entries in a folder that anybody may write")


@case(60)
def folder_is_a_link(t):
    target = t.path("elsewhere")
    os.mkdir(target, 0o700)
    untrusted(t, lambda: os.symlink(target, FOLDER))
    t.equal(os.listdir(target), [], "entries made through a symbolic link")


@case(60)
def registry_is_a_link(t):
    target = t.path("victim")
    with open(target, "w") as file:
        file.write("precious")

    def prepare():
        os.mkdir(FOLDER, 0o700)
        os.symlink(target, FILE)
    untrusted(t, prepare, other_name=False)
    with open(target) as file:
        t.equal(file.read(), "precious", "a file that the registry's name was linked to")
    t.check(stat.S_ISLNK(os.lstat(FILE).st_mode), "the link was replaced")


@case(60)
def registry_is_a_fifo(t):
    """No process may block because a FIFO has no other end."""
    def prepare():
        os.mkdir(FOLDER, 0o700)
        os.mkfifo(FILE, 0o600)
    untrusted(t, prepare, other_name=False)


def squat(*names):
    for name in names:
        os.mkdir(name)
        os.chown(name, 65534, 65534)


NAMES = [FOLDER, *(f"{FOLDER}.{number}" for number in range(1, 16))]
RUN = f"/run/user/{os.geteuid()}"


def private_run():
    """Mounts an empty /run/user for this process and its children."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"], check=True)
    os.mkdir("/run/user")


@case(60)
def many_names_taken(t):
    private_shm()
    private_run()
    squat(*NAMES[:7])
    exchange(t, demand_direct=True)
    t.check(os.path.exists(NAMES[7] + "/registry"), os.listdir("/dev/shm"))


@case(60)
def all_names_taken(t):
    """The streams go by TCP, are not disturbed otherwise, and give this as their reason."""
    private_shm()
    private_run()
    squat(*NAMES)
    port = exchange(t)
    for side in ("server", "client"):
        t.stats.plain(port, side, bytes_moved=2_000_000)
        t.equal({stream.record["reason"] for stream in t.stats.of_port(port, side)},
                {"no-registry"}, side)


@case(60)
def run_folder_of_the_user(t):
    """The folder that the login manager makes for the user, where no other user can write."""
    private_shm()
    private_run()
    squat(*NAMES)
    os.mkdir(RUN, 0o700)
    exchange(t, demand_direct=True)
    t.check(os.path.exists(RUN + "/rsock/registry"), os.listdir(RUN))


@case(60)
def run_folder_of_another(t):
    private_shm()
    private_run()
    squat(*NAMES, RUN)
    port = exchange(t)
    t.stats.plain(port, "server", bytes_moved=2_000_000)
    t.equal(os.listdir(RUN), [], "made in another user's folder")


@case(60)
def name_given_back_between(t):
    """A server that started while the name was taken, and a client that started when it was not any
    more, find each other: an existing registry is used rather than a new one made.
    """
    private_shm()
    squat(FOLDER)
    exchange(t, demand_direct=True)
    server = Peer(t, "server")
    port = t.free_port()
    server.ask("listening", "listen", port)
    early = Peer(t, "early")
    connect(server, early, port, 1)
    warm(early, server)
    os.rmdir(FOLDER)
    late = Peer(t, "late")
    connect(server, late, port, 2)
    warm(late, server)
    t.stats.sample()
    t.check(not os.path.exists(FOLDER), "two registries of one user")
    for peer in (server, early, late):
        peer.finish()
    t.stats.direct(port, to_server=1_000_000, to_client=1_000_000, share=0.35)


@case(60)
def moved_to_an_earlier_name(t):
    """There are two registries, for whatever reason: a process that uses the later name goes on
    with the earlier one.
    """
    private_shm()
    squat(FOLDER)
    server = Peer(t, "server")
    port = t.free_port()
    server.ask("listening", "listen", port)
    first = Peer(t, "first")
    connect(server, first, port, 1)
    warm(first, server)
    os.rmdir(FOLDER)
    os.mkdir(FOLDER, 0o700)
    late = Peer(t, "late")
    connect(server, late, port, 2)
    warm(late, server)
    t.stats.sample()
    t.check(os.path.exists(FILE), "the earlier name is used")
    for peer in (server, first, late):
        peer.finish()
    t.stats.direct(port, to_server=1_000_000, to_client=1_000_000, share=0.35)


def all_arrives(t):
    """Checks that all bytes arrive by either path, and that the library was there and counted them.
    """
    for _ in range(3):
        port = exchange(t)
        for side in ("server", "client"):
            moved = sum(stream.tx_ring_bytes + stream.tx_tcp_bytes
                        for stream in t.stats.of_port(port, side))
            t.stats.demand(moved >= 2_000_000,
                           f"port {port}, {side}: {moved} bytes counted, wanted 2000000")


@case(60)
def no_room(t):
    """/dev/shm is full: plain TCP or not, all bytes arrive."""
    private_shm("size=8k,nr_inodes=3")
    all_arrives(t)


@case(60)
def read_only(t):
    private_shm()
    subprocess.run(["mount", "-o", "remount,ro", "/dev/shm"], check=True)
    all_arrives(t)


if __name__ == "__main__":
    sys.exit(main())
