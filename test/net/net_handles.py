#!/usr/bin/python3
"""AssocHandles of rsockd's requests, as they are on the wire: 64 random bits, and none twice."""
import socket
import sys
import threading

import pm
from lib.harness import case, main
from net_rsockd import SERVICE, asking
from netlab import PM_PORT, Lab

EACH = 200  # requests of each of two daemons


class Denies(threading.Thread):
    """A PMSP that denies all, and keeps what it was asked: {CpPort: [AssocHandle]}."""

    def __init__(self, host):
        super().__init__(daemon=True)
        with host.inside():
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.socket.bind((host.ip, PM_PORT))
        self.asked = {}
        self.start()

    def run(self):
        while True:
            data, source = self.socket.recvfrom(2048)
            req = pm.parse(data)
            handles = self.asked.setdefault(req["cp_port"], [])
            if req["handle"] not in handles:  # a repeated request has the same
                handles.append(req["handle"])
            self.socket.sendto(pm.message(pm.DENY, req["ap"], req["ap_port"], req["cp"],
                                          req["cp_port"], req["handle"]), source)


@case(timeout=120)
def random_and_never_twice(t):
    """The second daemon asks what the first one did, with the same CpPorts: not even after a
    restart is a name used again.
    """
    a, b = Lab(t, 2).hosts
    pmsp = Denies(b)
    for number in range(2):
        if number:
            t.kill(a.daemon)
            a.restart()
        else:
            a.start(**asking(a))
        for port in range(1, EACH + 1):
            t.equal(a.map(b, SERVICE, cp_port=port)["outcome"], "refused", f"request {port}")
    t.equal({len(handles) for handles in pmsp.asked.values()}, {2}, "handles of each CpPort")
    handles = [pmsp.asked[port][number] for number in range(2) for port in range(1, EACH + 1)]
    t.equal((len(set(handles)), 0 in handles), (2 * EACH, False), "different ones; and 0 is none")
    # As good as certain for random numbers: each bit is set in 30 to 70 % of them (8 standard
    # deviations), no two are near each other, and no step from one to the next occurs twice.
    for bit in range(64):
        ones = sum(handle >> bit & 1 for handle in handles)
        t.check(0.3 < ones / len(handles) < 0.7, f"bit {bit} is 1 in {ones} of {len(handles)}")
    in_order = sorted(handles)
    t.check(min(b - a for a, b in zip(in_order, in_order[1:])) > 1 << 24, "near each other")
    for step in (lambda one, next_: (next_ - one) % (1 << 64), lambda one, next_: one ^ next_):
        steps = [step(*two) for two in zip(handles, handles[1:])]
        t.equal(len(set(steps)), len(steps), "different steps from one to the next")


if __name__ == "__main__":
    sys.exit(main())
