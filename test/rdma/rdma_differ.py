#!/usr/bin/python3
"""Runs the differential fuzzer (test/differ) with its streams over RDMA verbs, all in one guest
whose two devices send each other real packets. Each seed runs on kernel TCP, then preloaded, and
the results of every call are compared.

Processes are told not to share memory (RSOCK_SHM=0), as in rdma_apps.py. Between hosts, the
fallback from the ring to TCP takes a round trip: a call that has to wait for it returns EAGAIN, or
says that there is no room yet, where the kernel would not; it is made again.
"""
import os
import re
import sys

from rdmalab import SCALE, case, lab, main
from guest import ROOT
from rdma_apps import SERVER, packets, ready

PATIENCE = 6  # a guest is slower than this machine
SEEDS_S = int(os.environ.get("DIFFER_SECONDS", 240))


def run(t, guest, first, seconds=SEEDS_S):
    env = {"LIBRSOCK": lab(t).library, "RSOCK_TOOL": lab(t).tool, "RSOCK_TEST_BIN": lab(t).bin,
           "RSOCK_SHM": 0,
           "DIFFER_HOST": SERVER, "DIFFER_SCALE": PATIENCE, "DIFFER_PACE_MS": 200,
           "DIFFER_ANY_NUMBERS": 1,
           "DIFFER_LATE": 1}
    before = packets(guest)
    done = guest.start(["python3", "-B", f"{ROOT}/test/differ/differ.py", "--seeds", f"{first}..",
                        "--seconds", seconds,
                        "--jobs", 1, "--no-shrink"], env=env)
    done.wait(seconds + 120 * SCALE)
    print(done.out(), done.err(), sep="", flush=True)
    t.equal(done.rc, 0, "differ.py")
    found = re.search(r"(\d+) of (\d+) streams on the ring", done.out())
    t.check(found and int(found[1]) > 0, "streams on the ring")
    t.check(sum(now - had for had, now in zip(before, packets(guest))) > int(found[1]),
            "few packets")


@case(900)
def seeds(t):
    run(t, ready(t), 1001)


@case(600)
def seeds_over_loss(t):
    """RDMA packets are lost, late and out of order; TCP, which stays inside the guest, is not
    affected.
    """
    guest = ready(t)
    for netdev in "v0", "v1":
        guest.netem("loss 1% delay 200us reorder 25%", netdev=netdev)
    try:
        run(t, guest, 2001, SEEDS_S / 2)
    finally:
        for netdev in "v0", "v1":
            guest.netem(None, netdev=netdev)


if __name__ == "__main__":
    sys.exit(main(guests=1, vcpus=2))
