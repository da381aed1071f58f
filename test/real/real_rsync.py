#!/usr/bin/python3 -B
"""rsync: both sides fork after some 70 calls of its handshake, and two processes have the socket
from then on.

So the bulk goes by TCP, and the reason says why: a process of the pair was forked, at this end or
at the other one.
"""
import os
import shutil

from lib.harness import case, main

SIZE = 4_000_000
TIMES = 40


def daemon(t):
    for name in ("source", "sink"):
        os.mkdir(t.path(name))
    t.file("source/large", SIZE)
    for number in range(50):
        t.file(f"source/small{number}", 100)
    with open(t.path("conf"), "w") as file:
        file.write(f"use chroot = no\nuid = {os.getuid()}\ngid = {os.getgid()}\n"
                   f"[source]\npath = {t.path('source')}\n[sink]\npath = {t.path('sink')}\nread "
                   f"only = no\n")
    port = t.free_port()
    server = t.spawn(["rsync", "--daemon", "--no-detach", f"--config={t.path('conf')}",
                      f"--port={port}"],
                     name="rsync-daemon")
    return t.listening(server, port), port


def same(t, where):
    t.equal(sorted(os.listdir(where)), sorted(os.listdir(t.path("source"))), "files")
    t.same_file(os.path.join(where, "large"), t.path("source", "large"), "the large one")


def transfers(t, source, sink, where):
    for number in range(TIMES):
        t.run(["rsync", "-a", "--inplace", source, sink], name=f"rsync{number}", seconds=30)
        same(t, where)
        shutil.rmtree(where)
        os.mkdir(where)


def by_tcp(t, port):
    """Checks that the stream stayed on TCP, for that reason."""
    t.stats.sample()
    ends = t.stats.of_port(port, "client")
    t.check(len(ends) >= TIMES, f"{len(ends)} ends of {TIMES} transfers")
    told = {end.record["reason"] for end in ends}
    t.check(told <= {"shared-holder", "peer-fell-back", "no-peer"}
            and told & {"shared-holder", "peer-fell-back"}, str(told))


@case(120)
def download(t):
    _server, port = daemon(t)
    os.mkdir(t.path("got"))
    transfers(t, f"rsync://127.0.0.1:{port}/source/", t.path("got", ""), t.path("got"))
    by_tcp(t, port)


@case(120)
def upload(t):
    _server, port = daemon(t)
    transfers(t, t.path("source", ""), f"rsync://127.0.0.1:{port}/sink/", t.path("sink"))
    by_tcp(t, port)


if __name__ == "__main__":
    raise SystemExit(main())
