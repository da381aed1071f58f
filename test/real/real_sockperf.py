#!/usr/bin/python3 -B
"""sockperf over TCP: ping-pong with its own check of the data, throughput, several sockets behind
poll, select and epoll.
"""
import re
import signal
import sys

from lib.harness import case, main

# A client's table of messages has room for at most 600,000 a second; a ring does more, and sockperf
# then gives up.
BOUND = ("--mps", 100000)


def start_server(t, port, *options):
    where = [] if "-f" in options else ["--tcp", "-i", "127.0.0.1", "-p", port]
    server = t.spawn(["sockperf", "server", *where, *options], name="server")
    return t.listening(server, port)


def messages(t, text):
    found = re.search(r"\[Valid Duration\].*SentMessages=(\d+); ReceivedMessages=(\d+)", text)
    t.check(found, "sockperf gave no summary")
    dropped = re.search(r"dropped messages = (\d+); # duplicated messages = (\d+); # out-of-order "
                        r"messages = (\d+)", text)
    t.check(dropped and dropped.groups() == ("0", "0", "0"),
            f"sockperf: {dropped and dropped.group(0)}")
    return int(found.group(1)), int(found.group(2))


def ping_pong(t, size, *options):
    port = t.free_port()
    server = start_server(t, port)
    text = t.run(["sockperf", "ping-pong", "--tcp", "-i", "127.0.0.1", "-p", port, "-t", 2, "-m",
                  size, *BOUND, *options],
                 name="client")
    t.check("data integrity test" not in text.lower() or "failed" not in text.lower(),
            "data integrity")
    sent, _received = messages(t, text)
    # A client that never sleeps occupies a core: beside other programs its server waits for its
    # turn, on TCP as well.
    t.check(sent > (200 if "--nonblocked" in options else 1000), f"only {sent} messages in 2 s")
    t.stop(server, signal.SIGINT)
    t.stats.direct(port, to_server=sent * size, to_client=sent * size)


@case(60)
def ping_pong_64(t):
    ping_pong(t, 64, "--data-integrity")


@case(60)
def ping_pong_14(t):
    ping_pong(t, 14)


@case(60)
def ping_pong_16k(t):
    ping_pong(t, 16384, "--data-integrity")


@case(60)
def ping_pong_nonblocked(t):
    ping_pong(t, 200, "--nonblocked", "--data-integrity")


@case(60)
def throughput(t):
    port = t.free_port()
    server = start_server(t, port)
    text = t.run(["sockperf", "throughput", "--tcp", "-i", "127.0.0.1", "-p", port, "-t", 2, "-m",
                  1400], name="client")
    rate = re.search(r"Summary: Message Rate is (\d+)", text)
    t.check(rate and int(rate.group(1)) > 1000, f"throughput: {text[-300:]}")
    t.stop(server, signal.SIGINT)
    t.stats.direct(port, to_server=int(rate.group(1)) * 1400)


@case(60)
def under_load(t):
    port = t.free_port()
    server = start_server(t, port)
    text = t.run(["sockperf", "under-load", "--tcp", "-i", "127.0.0.1", "-p", port, "-t", 2, "-m",
                  100,
                  "--mps", 5000, "--reply-every", 10], name="client")
    sent, received = messages(t, text)
    t.check(sent > 2000 and received > 200, f"sent {sent}, received {received}")
    t.stop(server, signal.SIGINT)
    t.stats.direct(port, to_server=sent * 100)


def several(t, how):
    """A server with three listening sockets behind one waiting call, and a client that uses all
    three.
    """
    ports = [t.free_port() for _ in range(3)]
    feed = t.path("feed")
    with open(feed, "w") as file:
        file.writelines(f"T:127.0.0.1:{port}\n" for port in ports)
    server = start_server(t, ports[-1], "-f", feed, "-F", how)
    text = t.run(["sockperf", "ping-pong", "-f", feed, "-F", how, "-t", 2, "-m", 64, *BOUND,
                  "--data-integrity"],
                 name="client")
    sent, _received = messages(t, text)
    t.stop(server, signal.SIGINT)
    for port in ports:
        t.stats.direct(port, to_server=sent * 64 // 4, to_client=sent * 64 // 4)


@case(60)
def several_epoll(t):
    several(t, "e")


@case(60)
def several_poll(t):
    several(t, "p")


@case(60)
def several_select(t):
    several(t, "s")


if __name__ == "__main__":
    sys.exit(main())
