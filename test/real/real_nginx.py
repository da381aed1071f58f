#!/usr/bin/python3 -B
"""nginx (2 workers, the clients' user) with curl, wrk and ab: files of 1 B to 100 MB, sendfile on
and off, uploads, proxying.
"""
import os
import re
import signal
import sys

from lib.harness import case, descendants, main
from lib.nginx import fetch_all, start_server, stop


@case(90)
def files_sendfile(t):
    server, port = start_server(t)
    total = fetch_all(t, port)
    stop(t, server)
    # sendfile() hands the kernel megabytes a call, and pairing advances only with calls: some 8 MB
    # go before that.
    t.stats.direct(port, to_client=total, share=0.4)


@case(90)
def files_no_sendfile(t):
    server, port = start_server(t, sendfile="off")
    total = fetch_all(t, port)
    stop(t, server)
    t.stats.direct(port, to_client=total, bulk=True)


@case(90)
def files_ipv6(t):
    server, port = start_server(t, events="accept_mutex on;")
    total = fetch_all(t, port, host="[::1]")
    stop(t, server)
    t.stats.direct(port, to_client=total, share=0.4)


@case(90)
def files_connection_each(t):
    """No keep-alive: small files stay on TCP, the 100 MB one goes direct on its own connection."""
    server, port = start_server(t, keepalive=0)
    fetch_all(t, port)
    stop(t, server)
    # Each connection has to earn promotion: what goes into the kernel's buffers until then goes by
    # TCP, ten of 110 MB at least.
    t.stats.direct(port, to_client=100 << 20, share=0.4)


@case(90)
def files_parallel(t):
    server, port = start_server(t, listen="reuseport")
    total = fetch_all(t, port, "-Z", "--parallel-max", 6, "--parallel-immediate")
    stop(t, server)
    t.stats.direct(port, to_client=total, share=0.4)


@case(90)
def slow_reader(t):
    """A client that reads slower than nginx writes: full ring, EPOLLOUT, TCP's own buffers; nothing
    is lost.
    """
    server, port = start_server(t)
    total = fetch_all(t, port, "--limit-rate", "20M", sizes=(60_000_000,))
    stop(t, server)
    # It reads in bursts: a ring that stays full meanwhile makes the sender fall back to TCP's
    # larger buffers, again and again.
    t.stats.direct(port, to_client=total, share=0.2)


@case(90)
def client_leaves_early(t):
    """Clients that close in the middle; the worker goes on serving others."""
    server, port = start_server(t)
    big = 200 << 20
    t.file("www/big", big)
    for _ in range(10):
        status = t.run(["sh", "-c",
                        f"curl -sS http://127.0.0.1:{port}/big | head -c 20000000 | wc -c"])
        t.equal(status.strip(), "20000000", "bytes before breaking off")
    total = fetch_all(t, port, sizes=(612, 10_000_000))
    stop(t, server)
    # About half of some 20 MB a connection goes into the kernel's buffers before the two ends are
    # paired.
    t.stats.direct(port, to_client=total, streams=5, share=0.2)


@case(90)
def upload(t):
    server, port = start_server(t)
    for size in (1, 70_000, 100 << 20):
        source = t.file(f"source-{size}", size)
        t.run(["curl", "-sS", "-f", "-T", source, f"http://127.0.0.1:{port}/up/{size}"],
              name="curl")
        t.same_file(t.path("www/up", str(size)), source, f"upload of {size} bytes")
    stop(t, server)
    t.stats.direct(port, to_server=100 << 20, bulk=True)


@case(90)
def proxied(t):
    """curl - nginx - nginx, keep-alive to the upstream: both hops direct."""
    back, back_port = start_server(t)
    front, port = start_server(t, upstream=f"upstream back {{ server 127.0.0.1:{back_port}; "
                                           f"keepalive 4; }}",
                               location='location / { proxy_pass http://back; proxy_http_version '
                                        '1.1; '
                               'proxy_set_header Connection ""; proxy_max_temp_file_size 0; }')
    total = fetch_all(t, port, sizes=(1, 612, 65537, 30_000_000))
    stop(t, front)
    stop(t, back)
    t.stats.direct(port, to_client=total, bulk=True)
    # The proxy stops reading while its own client is slow: then the ring stays full and the sender
    # falls back to TCP. How often depends on the scheduler.
    t.stats.direct(back_port, to_client=total, bulk=True, share=0.1)


def wrk(t, port, connections, path, size, seconds=2):
    text = t.run(["wrk", "-t", 2, "-c", connections, "-d", f"{seconds}s",
                  f"http://127.0.0.1:{port}/{path}"])
    t.check("Socket errors" not in text and "Non-2xx" not in text, f"wrk: {text}")
    count, amount, unit = re.search(r"(\d+) requests in [^,]*, ([\d.]+)(\w+) read", text).groups()
    t.check(int(count) > 100, f"wrk: {text}")
    amount = float(amount) * {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}[unit]
    t.check(amount > 0.98 * int(count) * size,
            f"wrk: {count} answers of {size} bytes make {amount}")
    return int(count) * size


@case(60)
def wrk_keepalive(t):
    server, port = start_server(t)
    t.file("www/612", 612)
    moved = wrk(t, port, 32, "612", 612)
    stop(t, server)
    t.stats.direct(port, to_client=moved, streams=32)


@case(60)
def wrk_one_connection_each(t):
    server, port = start_server(t)
    t.file("www/20000", 20000)
    moved = wrk(t, port, 2, "20000", 20000)
    stop(t, server)
    t.stats.direct(port, to_client=moved, streams=2)


def ab(t, port, path, size, requests, *options):
    text = t.run(["ab", "-q", "-n", requests, "-c", 16, *options,
                  f"http://127.0.0.1:{port}/{path}"], name="ab")
    numbers = {name: int(value)
               for name, value in re.findall(r"^([A-Z][\w\- ]+):\s+(\d+)", text, re.M)}
    t.equal(numbers["Complete requests"], requests, "ab: complete requests")
    t.equal(numbers["Failed requests"], 0, "ab: failed requests")
    t.check("Non-2xx" not in text, f"ab: {text}")
    t.equal(numbers["HTML transferred"], requests * size, "ab: bytes of content")


@case(60)
def ab_keepalive(t):
    server, port = start_server(t)
    t.file("www/1000", 1000)
    ab(t, port, "1000", 1000, 30000, "-k")
    stop(t, server)
    t.stats.direct(port, to_client=30_000_000, streams=16)


@case(60)
def ab_connection_each(t):
    """Short connections: they work, and none of them pays for a promotion."""
    server, port = start_server(t)
    t.file("www/1000", 1000)
    ab(t, port, "1000", 1000, 10000)
    stop(t, server)
    t.stats.plain(port, "client", {"not-earned"}, streams=100)


@case(90)
def reload_under_load(t):
    """SIGHUP: old workers serve their downloads to the end on the streams they have, new ones take
    over.
    """
    server, port = start_server(t)
    size = 60_000_000
    t.file(f"www/{size}", size)
    loads = [t.spawn(["curl", "-sS", "-f", "--limit-rate", "40M", "-o", t.path(f"got{n}"),
                      f"http://127.0.0.1:{port}/{size}"], name=f"curl{n}") for n in range(4)]
    t.until(lambda: all(os.path.exists(t.path(f"got{n}"))
                        and os.path.getsize(t.path(f"got{n}")) > 5_000_000
                        for n in range(4)), 30, "four downloads to be well under way")
    old = set(descendants(server.pid))
    t.stats.sample()
    server.popen.send_signal(signal.SIGHUP)
    t.until(lambda: set(descendants(server.pid)) - old, 20, "new workers")
    fetch_all(t, port, sizes=(612, 1 << 20))
    for number, load in enumerate(loads):
        t.wait(load, 60)
        t.same_file(t.path(f"got{number}"), t.path("www", str(size)),
                    f"download {number} over the reload")
    t.until(lambda: not set(descendants(server.pid)) & old, 20, "the old workers to end")
    stop(t, server)
    # A limited rate means reading in bursts, and a full ring between them: TCP carries much of it.
    t.stats.direct(port, to_client=4 * size, share=0.1, streams=4, sides=("client",))


if __name__ == "__main__":
    sys.exit(main())
