#!/usr/bin/python3
"""What the ports of RNICs carry, as rsockd measures it, and rule R1: a session is mapped only where
the bandwidth that it needs is left by what others use.
"""
import socket
import sys
import threading
import time

from lib.harness import case, main
from net_measures import steps
from net_pma import central_agent, meets, under
from net_rdma import REAL, Tree
from net_rsockd import EVERYTHING, SERVICE, asking, serving
from netlab import Lab, ip

PORT_BPS, NEED_BPS = 5_000_000, 2_000_000
FITS = [{"name": "fits", "side": "ap", "when": {"bandwidth-fits": True}},
        {"name": "out", "side": "cp"}]


class Traffic:
    """Datagrams of a program without librsock, at some rate, until the block ends."""

    def __init__(self, host, to, bps, by=None):
        with host.inside():
            self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        if by:
            self.sock.bind((by, 0))
        self.sock.connect((to.ip, 9))
        self.bps, self.ended = bps, threading.Event()
        self.thread = threading.Thread(target=self.send)

    def send(self):
        sent, begin, datagram = 0, time.monotonic(), bytes(1400)
        while not self.ended.wait(0.01):
            while sent < (time.monotonic() - begin) * self.bps / 8:
                try:
                    self.sock.send(datagram)
                except ConnectionRefusedError:  # nobody listens there; this one is not sent
                    continue
                except OSError:  # the link is down
                    break
                sent += len(datagram)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        self.sock.close()


def limited(host, need=NEED_BPS, **more):
    """A configuration whose RNIC has little bandwidth, of which sessions need some."""
    return serving(host, **{
        "rnics": [{"name": "rnic0", "addresses": [host.ip], "bandwidth": f"{PORT_BPS}bit"}],
        "services": [{"name": "iperf", "ports": [str(SERVICE)], "rdma-port": "18000",
                      "bandwidth": f"{need}bit", "pm-time": "2s"}],
        "rules": FITS, **more})


def hosts(t, **more):
    a, b = Lab(t, 2).hosts
    a.start(**asking(a))
    b.start(**limited(b, **more))
    return a, b


def verdict(host):
    return steps(host, side="ap", ip=host.ip, port=SERVICE)[0]


def refused_and_admitted(t, a, b, sender, receiver, number):
    """Others' traffic leaves too little for a session that fitted, until it has ended."""
    answer = a.map(b, SERVICE, cp_port=number)
    t.equal(answer["outcome"], "mapped", answer)
    t.until(lambda: b.device("rnic0")["bps"] == 0, 20, "the promise to be over")
    with Traffic(sender, receiver, 3 * PORT_BPS):
        t.until(lambda: verdict(b) == "no-rule", 30, "others to leave too little")
        said = steps(b, side="ap", ip=b.ip, port=SERVICE)[1]
        t.check(f"bandwidth-fits: {NEED_BPS} bit/s are needed, " in said, said)
        t.equal(a.map(b, SERVICE, cp_port=number + 1)["outcome"], "refused", "R1")
        device = b.device("rnic0")
        t.check(device["others_bps"] > PORT_BPS - NEED_BPS, device)
        t.check(device["carried_bps"] >= device["others_bps"], device)
        for figure in ("carried_bps", "others_bps"):
            name = f'device_{figure}{{device="rnic0",node="host2"}}'
            t.check(b.figure(name) > PORT_BPS - NEED_BPS, name)
    t.until(lambda: verdict(b) == "map", 60, "the traffic to be forgotten")
    answer = a.map(b, SERVICE, cp_port=number + 2)
    t.equal(answer["outcome"], "mapped", answer)
    t.until(lambda: b.device("rnic0")["bps"] == 0, 20, "the promise to be over")


@case(timeout=180)
def others_leave_too_little(t):
    a, b = hosts(t)
    refused_and_admitted(t, a, b, a, b, 1)  # received
    refused_and_admitted(t, a, b, b, a, 11)  # sent


@case(timeout=90)
def what_is_booked_is_ours(t):
    """Traffic up to what our own sessions have booked is taken for theirs."""
    a, b = hosts(t, need=3 * PORT_BPS // 5)
    with Traffic(b, a, PORT_BPS // 5):
        t.until(lambda: b.device("rnic0")["others_bps"] > PORT_BPS // 10, 30, "it to be others'")
        number = iter(range(1, 60000))

        def booked():
            device = b.device("rnic0")
            if not device["bps"]:
                t.equal(a.map(b, SERVICE, cp_port=next(number))["outcome"], "mapped", device)
            return device["bps"] and device["carried_bps"] > PORT_BPS // 10 > \
                2 * device["others_bps"]
        t.until(booked, 60, "it to be ours")


def with_a_link(host, name, address, to):
    """Another link of the host, where what comes from that address leaves. Datagrams to the other
    host leave, too, and end at the link's far end.
    """
    ip("-n", host.ns, "link", "add", name, "type", "veth", "peer", "name", f"far-{name}")
    for link in (name, f"far-{name}"):
        with host.inside(), open(f"/proc/sys/net/ipv6/conf/{link}/disable_ipv6", "w") as file:
            file.write("1")  # so that the kernel sends nothing by itself
        ip("-n", host.ns, "link", "set", link, "up")
    ip("-n", host.ns, "address", "add", f"{address}/32", "dev", name)
    table = address.rsplit(".", 1)[1]
    ip("-n", host.ns, "route", "add", "10.77.0.0/24", "dev", name, "table", table)
    ip("-n", host.ns, "rule", "add", "from", address, "table", table)
    ip("-n", host.ns, "neigh", "add", to.ip, "lladdr", "02:00:00:00:00:01", "dev", name)


@case(timeout=180)
def new_sessions_go_where_others_carry_less(t):
    """Of two RNICs without a session, the one that others do not use is chosen."""
    a, b = Lab(t, 2).hosts
    a.start(**asking(a))
    places = {"r0": "10.77.1.11", "r1": "10.77.1.12"}
    for name, address in places.items():
        with_a_link(b, name, address, a)
    b.start(**limited(b, need=PORT_BPS // 10, rules=EVERYTHING,
                      rnics=[{"name": name, "addresses": [address], "bandwidth": f"{PORT_BPS}bit"}
                             for name, address in places.items()],
                      aggregates=[{"address": b.ip, "over": list(places), "choose": "load"}]))
    number = iter(range(1, 60000))

    def goes_to(wanted, what):
        answer = a.map(b, SERVICE, cp_port=next(number))
        t.equal((answer["outcome"], answer.get("rdma", {}).get("ip")), ("mapped", places[wanted]),
                what)
        t.until(lambda: not any(b.device(name)["promised"] for name in places), 60,
                "the promise to be over")
    goes_to("r0", "the first of two that carry nothing")
    for busy, idle in (("r0", "r1"), ("r1", "r0")):
        with Traffic(b, a, PORT_BPS // 2, by=places[busy]):
            t.until(lambda busy=busy, idle=idle: b.device(busy)["others_bps"] >
                    PORT_BPS // 4 + b.device(idle)["others_bps"], 60, f"others to use {busy}")
            goes_to(idle, f"others use {busy}")


@case(timeout=90)
def a_link_that_goes(t):
    """A port without a link is not measured; what its link counted before is no traffic later."""
    a, b = hosts(t)

    def carried():
        return b.device("rnic0")["carried_bps"]
    with b.inside():
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ip("-n", b.ns, "link", "add", "rn0", "type", "veth", "peer", "name", "far0")
    for name in ("rn0", "far0"):
        ip("-n", b.ns, "link", "set", name, "up")
    with Traffic(b, a, PORT_BPS):
        t.until(lambda: carried() > PORT_BPS // 2, 30, "it to be measured")
        ip("-n", b.ns, "address", "del", f"{b.ip}/24", "dev", "lan")
        t.until(lambda: carried() == 0 and not b.device("rnic0")["there"], 20,
                "it not to be measured")
    # The address is on another link, which carries nothing, and then on the first one again.
    ip("-n", b.ns, "address", "add", f"{b.ip}/24", "dev", "rn0")
    t.until(lambda: b.device("rnic0")["there"], 20, "it to be back")
    ip("-n", b.ns, "address", "del", f"{b.ip}/24", "dev", "rn0")
    ip("-n", b.ns, "address", "add", f"{b.ip}/24", "dev", "lan")
    most = 0

    def measured():
        nonlocal most
        most = max(most, carried())
        sock.sendto(bytes(1400), (a.ip, 9))
        return most
    t.until(measured, 20, "a little to be measured")
    t.check(most < PORT_BPS // 2, f"{most} bit/s")


@case(timeout=90)
def counters_of_a_device(t):
    """RDMA traffic is not among the link's: the device counts it, in units of 4 octets."""
    tree = Tree(t)
    (b,) = Lab(t, 1).hosts
    tree.add(b, REAL, "mlx5_0", "lan")
    counters = f"devices/{REAL}/infiniband/mlx5_0/ports/1/counters"
    begin = time.monotonic()

    def count(bps, direction="xmit"):
        """Both counters, as if the device had sent or received at that rate since the begin."""
        for way in ("xmit", "rcv"):
            units = int((time.monotonic() - begin) * bps / 32) if way == direction else 0
            tree.put(b, f"{counters}/port_{way}_data", str(units))
    count(0)
    b.start(**serving(b))

    def carries(bps, direction):
        count(bps, direction)
        return 0.5 * bps < b.device("rnic0")["others_bps"] < 1.5 * bps
    t.until(lambda: carries(10e9, "xmit"), 30, "it to send")
    # A jump back, and on another counter: no traffic.
    t.until(lambda: carries(1e9, "rcv"), 60, "it to receive")
    # What is no number is not measured; the link itself carries next to nothing.
    tree.put(b, f"{counters}/port_rcv_data", "N/A (no PMA)")
    t.until(lambda: b.device("rnic0")["carried_bps"] < 1e8, 20, "it not to be measured")
    t.until(lambda: carries(2e9, "xmit"), 60, "it to be measured again")


@case(timeout=90)
def a_node_reports_it(t):
    """The central agent decides by what a node reports of its ports."""
    a, b, c = Lab(t, 3).hosts
    central_agent(b.lab, 2, [{"name": "iperf", "ports": [str(SERVICE)],
                              "bandwidth": f"{NEED_BPS}bit"}],
                  rnics=[{"name": "b0", "node": "host2", "addresses": [b.ip],
                          "bandwidth": f"{PORT_BPS}bit"}], rules=FITS)
    b.start(**serving(b, pma=under(b, c, "central")))
    meets(t, b)
    t.equal(c.device("b0")["others_bps"], 0, "before")
    with Traffic(a, b, 3 * PORT_BPS):
        t.until(lambda: c.device("b0")["others_bps"] > PORT_BPS - NEED_BPS, 30, "its report")
        t.equal(steps(c, side="ap", ip=b.ip, port=SERVICE)[0], "no-rule", "R1 there")
    t.until(lambda: steps(c, side="ap", ip=b.ip, port=SERVICE)[0] == "map", 60, "it to end")


if __name__ == "__main__":
    sys.exit(main())
