#!/usr/bin/python3
"""What a message between two hosts costs at the most: instructions and system calls of the client's
thread, work requests and completions of its process. No figure depends on the clock."""
import sys

from hosts import hosts
from message_counts import RSPERF, count
from rdmalab import case, lab, main

# At the most, for each message. A round trip is both ways; make bench-rdma-counts has the figures.
ROUND_TRIP = {"instructions": 6700, "system calls": 4.1, "writes": 1.08, "with_imm": 1.08,
              "signalled": 0.03, "completions": 1.08, "send_completions": 0.03, "events": 1.02}
SENDS = {"instructions": 91000, "system calls": 2, "writes": 1.2, "signalled": 0.04,
         "completions": 0.7, "send_completions": 0.04, "events": 0.1, "reads": 0.05}


def cost(t, port, test, size, spin_us):
    a, b = hosts(t)
    at = ("--wait", "recv", "--host", b.ip, "--port", port)
    server = b.start([RSPERF, "server", *at], preload=True)
    b.until(lambda: "listening" in server.out(), 60, "the server to listen")
    env = {"LD_PRELOAD": lab(t).library, **({"RSOCK_SPIN_US": spin_us} if spin_us else {})}
    return count(a, (test, "--size", size, *at), env, size)


def within(t, per, most):
    print({what: round(number, 4) for what, number in per.items()})
    for what, bound in most.items():
        t.check(per[what] <= bound, f"{what}: {per[what]:.4g} for each message, at most {bound}")


@case(200)
def round_trip_asleep(t):
    within(t, cost(t, 7701, "--lat", 64, "0"), ROUND_TRIP)


@case(200)
def sends_of_64_kib(t):
    within(t, cost(t, 7702, "--bw", 65536, None), SENDS)


if __name__ == "__main__":
    sys.exit(main())
