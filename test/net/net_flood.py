#!/usr/bin/python3
"""Everything that a user can have rsockd hold or do, as much of it as it takes: it is bounded, and others are served as
before. Mallory floods, Alice asks.
"""
import os
import resource
import sys

import local
import segment
from netlab import HERE  # noqa: F401 (sets the path)
from harness import case, main
from net_local import ALICE, BOB, MALLORY, host_with

SERVICE = 8080


def memory(host, key="RssShmem"):
    with open(f"/proc/{host.daemon.pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key + ":"))


def shmem():
    """Of the machine, KiB."""
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Shmem:"))


def many_descriptors():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def hello(host, uid, fd=None):
    guest = local.Client(host.local, uid)
    guest.say(local.HELLO, [] if fd is None else [fd])
    return guest


@case(timeout=120)
def empty_statistics(t):
    """Segments of five megabytes that are holes but for a few bytes: nobody makes pages of them."""
    many_descriptors()
    a = host_with(t)
    before = shmem()
    guests, fds = [], []
    for _ in range(200):
        fds.append(segment.make())
        guests.append(hello(a, MALLORY, fds[-1]))
    t.until(lambda: a.figure("statistics_segments") == 200, 20, "the segments to be there")
    for _ in range(20):
        a.metrics()
    held = sum(os.fstat(fd).st_blocks for fd in fds) // 2
    t.check(held <= 200 * 8, f"{held} KiB of segments that are empty")
    t.check(memory(a) < 1024, f"{memory(a)} KiB shared memory in rsockd")
    t.check(shmem() - before < 200 * 1000, f"{shmem() - before} KiB more shared memory in this machine")
    for guest, fd in zip(guests, fds):
        guest.close()
        os.close(fd)
    t.until(lambda: a.figure("statistics_segments") == 0, 20, "all to be gone")


@case(timeout=60)
def statistics_that_are_none(t):
    """Another size, seals that are missing, a file, a pipe, one that cannot be read: refused, and nothing is kept."""
    a = host_with(t)
    guest = local.Client(a.local, MALLORY)
    path = t.path("plain")
    with open(path, "wb") as file:
        file.truncate(segment.BYTES)
    wrong = [segment.make(size=segment.BYTES - 1), segment.make(seals=1 | segment.SHRINK),
             segment.make(seals=1 | segment.GROW), os.open(path, os.O_RDWR), os.pipe()[0],
             os.open(path, os.O_PATH), os.open(f"/proc/self/fd/{segment.make()}", os.O_WRONLY)]
    held = len(os.listdir(f"/proc/{a.daemon.pid}/fd"))
    for fd in wrong:
        guest.say(local.HELLO, [fd])
    t.until(lambda: a.figure("statistics_refused_total") == len(wrong), 10, "all to be refused")
    t.equal(a.figure("statistics_segments"), 0, "segments")
    t.check(len(os.listdir(f"/proc/{a.daemon.pid}/fd")) <= held + 1, "descriptors were kept")
    guest.say(local.HELLO, [segment.make()])
    t.until(lambda: a.figure("statistics_segments") == 1, 10, "a right one")


def measured_by(host):
    """Means of the service's streams, by user."""
    start = 'rsockd_service_stream_bytes{service="web",user="'
    return {int(name[len(start):-2]): value for name, value in host.metrics().items() if name.startswith(start)}


@case(timeout=60)
def forged_measurements(t):
    """What a user says of streams is held against him alone, and not believed beyond all measure."""
    a = host_with(t, rnics=[{"name": "lo0", "addresses": ["10.77.0.1"], "sessions": 1000}],
                  services=[{"name": "web", "ports": [str(SERVICE)]}],
                  rules=[{"name": "long", "when": {"stream-bytes-at-least": "20000"}}], **{"watch-devices": False})

    def verdict(uid):
        return a.post("/v1/explain", {"ip": "10.77.0.9", "from": a.ip, "port": SERVICE, "user": uid})["verdict"]
    for uid, total in ((MALLORY, 1), (BOB, 1 << 30)):
        fd = segment.make()
        guest = hello(a, uid, fd)

        def told(uid=uid, fd=fd, total=total):
            for number in range(100):
                segment.put_ended(fd, number, local_port=40000, peer_port=SERVICE, total=total)
            return uid in measured_by(a)
        t.until(told, 10, f"what user {uid} says to be counted")
        guest.close()
    t.equal(measured_by(a), {MALLORY: 1, BOB: 1 << 30}, "means by user")
    t.equal([verdict(uid) for uid in (MALLORY, BOB, ALICE, 0)], ["not-worth", "map", "map", "map"], "verdicts")
    fd = segment.make()
    guest = hello(a, ALICE, fd)

    def refused():
        for number in range(100):
            segment.put_ended(fd, number, local_port=40000, peer_port=SERVICE, total=1 << 50, opened_ns=1)
        return a.figure("statistics_implausible_total") > 100
    t.until(refused, 10, "more than memory can carry")
    t.check(ALICE not in measured_by(a), "believed all the same")
    guest.close()


if __name__ == "__main__":
    sys.exit(main())
