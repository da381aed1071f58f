#!/usr/bin/python3 -B
"""Python's own servers: http.server, asyncio, selectors, socketserver with forks and threads; and
two programs that write before they read.
"""
import re
import signal
import sys

from lib.harness import PYTHON, case, main


def echo_clients(t, port, clients=8, kilobytes=4000, program="echo_client.py", preload=True):
    """Runs clients that send random messages and compare the echo; returns the bytes each way."""
    text = t.wait_out(t.python(program, port, clients, kilobytes, preload=preload), 60)
    word, count = text.split()
    t.equal(word, "right", "verdict of the echo clients")
    return int(count)


def end(t, server):
    """Stops a server by SIGINT, on which Python ends by KeyboardInterrupt."""
    t.stop(server, signal.SIGINT)


@case(60)
def http_server(t):
    port = t.free_port()
    sizes = (1, 1000, 300_000, 40_000_000)
    files = [t.file(f"file{size}", size) for size in sizes]
    server = t.spawn([PYTHON, "-m", "http.server", "--bind", "127.0.0.1", "-p", "HTTP/1.1", "-d",
                      t.tmp, port],
                     name="server")
    t.listening(server, port)
    words = []
    for size in sizes:
        words += ["-o", t.path(f"got{size}"), f"http://127.0.0.1:{port}/file{size}"]
    t.run(["curl", "-sS", "-f", *words])
    for size, file in zip(sizes, files):
        t.same_file(t.path(f"got{size}"), file, f"file of {size} bytes")
    end(t, server)
    t.stats.direct(port, to_client=sum(sizes), bulk=True)


@case(60)
def urllib_client(t):
    """Both ends Python: urllib fetches from http.server."""
    port = t.free_port()
    file = t.file("file", 30_000_000)
    server = t.listening(t.spawn([PYTHON, "-m", "http.server", "--bind", "::1", "-d", t.tmp, port],
                                 name="server"), port)
    program = (f"import urllib.request, shutil; shutil.copyfileobj("
               f"urllib.request.urlopen('http://[::1]:{port}/file'), open('got', 'wb'))")
    t.run([PYTHON, "-c", program], name="urllib")
    t.same_file(t.path("got"), file, "file")
    end(t, server)
    t.stats.direct(port, to_client=30_000_000, bulk=True)


def echo(t, kind, share=0.9, streams=8, **options):
    port = t.free_port()
    server = t.listening(t.python("echo_server.py", kind, port), port)
    moved = echo_clients(t, port, **options)
    t.stats.sample()
    end(t, server)
    t.check("Traceback" not in re.sub(r"Traceback[^$]*KeyboardInterrupt", "", server.err()),
            f"server: {server.err()[-500:]}")
    t.stats.direct(port, to_server=moved, to_client=moved, streams=streams, share=share)


@case(60)
def asyncio_echo(t):
    echo(t, "asyncio")


@case(60)
def asyncio_both(t):
    # Each client writes as much as it can before it reads. Much of it goes into the kernel's
    # buffers before the ends are paired, so each stream carries more than these hold; and a ring
    # that is not read makes the sender fall back to them again. How much is left for the rings
    # depends on the scheduler.
    echo(t, "asyncio", program="asyncio_client.py", clients=3, kilobytes=14_000, share=0.02,
         streams=3)


@case(60)
def forking_server(t):
    """A child for each connection: accepted in the parent, used in the child, closed in the parent.
    """
    echo(t, "forking")


@case(60)
def threading_server(t):
    echo(t, "threading")


@case(60)
def select_server(t):
    echo(t, "select")


@case(60)
def poll_server(t):
    echo(t, "poll")


@case(60)
def epoll_server(t):
    echo(t, "epoll")


@case(60)
def prefork_server(t):
    """Four processes accept on one listening socket made before the fork."""
    echo(t, "prefork")


@case(60)
def multiprocessing_pool(t):
    """multiprocessing.managers over TCP: pickled calls from four processes, fork and exec in
    between.
    """
    port = t.free_port()
    server = t.listening(t.python("manager.py", "server", port), port)
    text = t.wait_out(t.python("manager.py", "client", port), 60)
    t.equal(text.strip(), "right", "verdict of the clients")
    end(t, server)
    t.stats.direct(port, to_server=1_000_000, to_client=1_000_000, streams=4)


def both_write_first(t, kilobytes, turns):
    port = t.free_port()
    server = t.listening(t.python("both_write.py", "server", port, kilobytes, turns), port)
    client = t.python("both_write.py", "client", port, kilobytes, turns)
    for proc in (client, server):
        t.equal(t.wait_out(proc, 40).strip(), "right", f"verdict of the {proc.argv[4]}")
    # A sender whose reader does not read rightly ends up in TCP's buffers. So only the ping-pong
    # before it (1 % of 20 MB) is demanded, and not a share of the blocks.
    t.stats.direct(port, to_server=20_000_000, to_client=20_000_000, share=0.01)


@case(60)
def both_write_3mb_before_reading(t):
    both_write_first(t, 3000, 1)


@case(60)
def both_write_300kb_before_reading_40_times(t):
    both_write_first(t, 300, 40)


@case(60)
def both_write_3mb_before_reading_10_times(t):
    both_write_first(t, 3000, 10)


@case(60)
def one_send(t):
    """One blocking send() of 96 MB, as sendall() makes it: the stream is promoted during the call.
    """
    port = t.free_port()
    server = t.listening(t.python("one_send.py", "server", port, 96), port)
    client = t.python("one_send.py", "client", port, 96)
    for proc in (client, server):
        t.equal(t.wait_out(proc, 40).strip(), "right", f"verdict of the {proc.argv[3]}")
    t.stats.direct(port, to_server=96 << 20, bulk=True)


if __name__ == "__main__":
    sys.exit(main())
