#!/usr/bin/python3 -B
"""Only one side has the library: everything works, the streams are plain TCP, and their record says
why.
"""
import json
import os
import shutil
import sys

from lib import nginx, redis
from lib.harness import case, main

# The other end never posts itself; the lookup is bounded.
NO_PEER = {"no-peer"}


def sides(which):
    return {"server": which == "server", "client": which == "client"}


def one_side_redis(t, which):
    on = sides(which)
    server, port = redis.start_server(t, preload=on["server"])
    redis.benchmark(t, port, "-t", "get,set", "-n", 100000, "-c", 10, "-d", 200, "-P", 4,
                    preload=on["client"])
    t.stop(server)
    t.stats.plain(port, which, NO_PEER, streams=10, bytes_moved=20_000_000)


@case(60)
def redis_server_only(t):
    one_side_redis(t, "server")


@case(60)
def redis_client_only(t):
    one_side_redis(t, "client")


def one_side_nginx(t, which):
    on = sides(which)
    server, port = nginx.start_server(t, preload=on["server"])
    size = 100 << 20
    file = t.file("www/big", size)
    t.run(["curl", "-sS", "-f", "-o", t.path("got"), f"http://127.0.0.1:{port}/big"],
          preload=on["client"], name="curl")
    t.same_file(t.path("got"), file, "file")
    nginx.stop(t, server)
    t.stats.plain(port, which, NO_PEER, bytes_moved=size)


@case(60)
def nginx_server_only(t):
    one_side_nginx(t, "server")


@case(60)
def nginx_client_only(t):
    one_side_nginx(t, "client")


def iperf3(t, which, *options):
    on = sides(which)
    port = t.free_port()
    server = t.listening(t.spawn(["iperf3", "-s", "-1", "-p", port], preload=on["server"],
                                 name="server"), port)
    text = t.run(["iperf3", "-c", "127.0.0.1", "-p", port, "-J", "-t", 1, *options],
                 preload=on["client"], seconds=30)
    t.wait(server, 20)
    moved = json.loads(text)["end"]["sum_received"]["bytes"]
    t.check(moved > 10_000_000, f"only {moved} bytes moved")
    # after the lookup has ended the stream's bytes are not counted any more
    t.stats.plain(port, which, NO_PEER | {"not-earned"}, streams=2, bytes_moved=10_000_000)


@case(60)
def iperf3_server_only(t):
    iperf3(t, "server")


@case(60)
def iperf3_client_only(t):
    iperf3(t, "client", "-R")


@case(60)
def disabled_by_environment(t):
    """RSOCK_DISABLE=1 on one side has the same effect as no library there."""
    server, port = redis.start_server(t)
    t.run(["redis-benchmark", "-h", "127.0.0.1", "-p", port, "-q", "-t", "get", "-n", "50000", "-c",
           "5"],
          env={"RSOCK_DISABLE": "1"}, name="benchmark")
    t.stop(server)
    t.stats.plain(port, "server", NO_PEER, streams=5)


@case(60)
def other_user(t):
    """A client of another effective user: same host, same library, plain TCP."""
    t.check(os.geteuid() == 0, "this case must run as root to become another user")
    size = 50_000_000
    server, port = nginx.start_server(t)
    file = t.file("www/big", size)
    os.chmod(t.tmp, 0o777)
    os.chmod(t.path("stat"), 0o777)
    # That user may not be able to read the build tree: the client gets a copy of the library.
    env = None
    if t.library:
        shutil.copy(t.library.split(":")[-1], t.path("librsock.so"))
        os.chmod(t.path("librsock.so"), 0o755)
        env = {"LD_PRELOAD": ":".join(t.library.split(":")[:-1] + [t.path("librsock.so")])}
    t.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "curl", "-sS", "-f",
           "-o", "got",
           f"http://127.0.0.1:{port}/big"], name="curl", env=env)
    t.same_file(t.path("got"), file, "file fetched by another user")
    nginx.stop(t, server)
    t.stats.plain(port, "server", NO_PEER | {"other-user"}, bytes_moved=size)
    t.stats.plain(port, "client", NO_PEER | {"other-user"}, bytes_moved=size)


@case(60)
def mixed_clients_of_one_server(t):
    """Plain and preloaded clients at the same time on one server: each stream gets what is possible
    for it.
    """
    size = 30_000_000
    server, port = nginx.start_server(t)
    file = t.file("www/big", size)
    curls = [t.spawn(["curl", "-sS", "-f", "-o", t.path(f"got{n}"), f"http://127.0.0.1:{port}/big"],
                     preload=bool(n % 2), name=f"curl{n}") for n in range(8)]
    for number, curl in enumerate(curls):
        t.wait(curl, 40)
        t.same_file(t.path(f"got{number}"), file, f"download {number}")
    nginx.stop(t, server)
    t.stats.direct(port, to_client=4 * size, streams=4, sides=("client",), bulk=True, share=0.25)
    promoted = [s for s in t.stats.of_port(port, "server") if s.promotions]
    t.stats.demand(len(promoted) == 4,
                   f"{len(promoted)} of the server's streams promoted, wanted 4 of 8")


@case(60)
def setuid_inert(t):
    """AT_SECURE: the loader ignores LD_PRELOAD with a path, and the program works as usual."""
    t.check(os.geteuid() == 0, "this case must run as root to make a setuid program")
    copy = t.path("nc-setuid")
    with open("/bin/nc.openbsd", "rb") as source, open(copy, "wb") as out:
        out.write(source.read())
    os.chown(copy, 65534, 65534)
    os.chmod(copy, 0o6755)
    os.chmod(t.tmp, 0o777)
    port = t.free_port()
    source = t.file("source", 5_000_000)
    server = t.listening(t.spawn(["nc", "-l", "127.0.0.1", port], name="nc-server"), port)
    t.run([copy, "-N", "127.0.0.1", port], stdin=source, name="nc-setuid")
    t.wait(server, 20)
    t.same_file(server.out_path, source, "file sent by a setuid program")
    t.stats.plain(port, "server", bytes_moved=5_000_000)
    t.stats.demand(not t.stats.of_port(port, "client"),
                   "the library was at work in a setuid program")


if __name__ == "__main__":
    sys.exit(main())
