#!/usr/bin/python3
"""What a message between two hosts costs at the most: instructions and system calls of the client's
thread, work requests and completions of its process. No figure is a time, but how often a client
finds what it waits for before it sleeps depends on one, and how often a request is signalled to
measure the rate: the bounds are for all sleeps, and for a slow machine."""
import sys

from hosts import hosts
from message_counts import RSPERF, count
from rdmalab import case, lab, main

# At the least and at the most, for each message. A round trip is both ways;
# make bench-rdma-counts has the figures.
ROUND_TRIP = {"instructions": (3000, 6500), "system calls": (2, 4.1), "writes": (0.99, 1.08),
              "inlined": (0.99, 1.08), "with_imm": (0.99, 1.08), "signalled": (0.01, 0.1),
              "completions": (0.99, 1.08), "send_completions": (0.01, 0.1), "events": (0.3, 1.02)}
SENDS = {"instructions": (40000, 91000), "system calls": (0.9, 2), "writes": (0.99, 1.2),
         "with_imm": (0.9, 1.1), "signalled": (0.01, 0.15), "completions": (0.1, 1.1),
         "send_completions": (0.01, 0.15), "events": (0, 0.5), "reads": (0, 0.05)}


def cost(t, port, test, size, spin_us):
    a, b = hosts(t)
    at = ("--wait", "recv", "--host", b.ip, "--port", port)
    server = b.start([RSPERF, "server", *at], preload=True)
    b.until(lambda: "listening" in server.out(), 60, "the server to listen")
    env = {"LD_PRELOAD": lab(t).library, **({"RSOCK_SPIN_US": spin_us} if spin_us else {})}
    return count(a, (test, "--size", size, *at), env, size)


def within(t, per, bounds):
    print({what: round(number, 4) for what, number in per.items()})
    for what, (least, most) in bounds.items():
        t.check(least <= per[what] <= most,
                f"{what}: {per[what]:.4g} for each message, {least} to {most}")


@case(200)
def round_trip_asleep(t):
    within(t, cost(t, 7701, "--lat", 64, "0"), ROUND_TRIP)


@case(200)
def sends_of_64_kib(t):
    within(t, cost(t, 7702, "--bw", 65536, None), SENDS)


if __name__ == "__main__":
    sys.exit(main())
