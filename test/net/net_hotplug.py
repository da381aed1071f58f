#!/usr/bin/python3
"""Devices of a host that appear and vanish while its rsockd runs: links, carriers and addresses, as
the kernel reports them.
"""
import os
import re
import signal
import subprocess
import sys

from lib.harness import case, main
from net_rdma import REAL, Tree
from net_rsockd import SERVICE, asking, serving
from netlab import Lab, ip

ONE, TWO = "10.77.1.1", "10.77.1.2"
NO_LINK = "no link that works has its address"
NO_RDMA = "there is no RDMA device on the link of its address"


def with_links(t, services=None, roles=("active", "active"), **more):
    """Two hosts; the second has two RNICs r0 and r1, each with an address on a link of its own,
    besides its own address.
    """
    a, b = Lab(t, 2).hosts
    for number, address in enumerate((ONE, TWO)):
        ip("-n", b.ns, "link", "add", f"rn{number}", "type", "veth", "peer", "name", f"far{number}")
        for link in (f"rn{number}", f"far{number}"):
            ip("-n", b.ns, "link", "set", link, "up")
        ip("-n", b.ns, "address", "add", f"{address}/32", "dev", f"rn{number}")
    a.start(**asking(a))
    config = serving(b, rnics=[{"name": f"r{number}", "addresses": [address], "role": roles[number]}
                               for number, address in enumerate((ONE, TWO))],
                     aggregates=[{"address": b.ip, "over": ["r0", "r1"], "choose": "order"}],
                     **more)
    if services:
        config["services"] = services
    b.start(**config)
    return a, b


def is_state(t, host, device, state):
    t.until(lambda: host.device(device)["state"] == state, 20, f"{device} to be {state}")


def events(host):
    return {name: int(count) for name, count in
            re.findall(r'rsockd_policy_events_total\{event="([^"]+)"\} (\d+)',
                       host.get("/metrics"))}


def mapped(a, b, number):
    """The address that a new session of connection @number is mapped to."""
    answer = a.map(b, SERVICE, cp_port=number)
    return answer["rdma"]["ip"] if answer["outcome"] == "mapped" else answer["outcome"]


@case(timeout=60)
def new_sessions_go_where_a_link_is(t):
    a, b = with_links(t)
    t.equal(mapped(a, b, 1), ONE, "both are there")
    for number, (gone, back) in enumerate((
            (("link", "set", "rn0", "down"), ("link", "set", "rn0", "up")),
            (("link", "set", "far0", "down"), ("link", "set", "far0", "up")),  # its carrier
            (("address", "del", f"{ONE}/32", "dev", "rn0"),
             ("address", "add", f"{ONE}/32", "dev", "rn0")),
            (("address", "del", f"{ONE}/32", "dev", "rn0"),
             ("address", "add", f"{ONE}/32", "dev", "rn1")))):
        ip("-n", b.ns, *gone)
        is_state(t, b, "r0", "down")
        device = b.device("r0")
        t.equal((device["there"], device["why_down"]), (False, NO_LINK), "it is not there")
        t.equal(mapped(a, b, 10 + number), TWO, f"after {' '.join(gone)}")
        ip("-n", b.ns, *back)
        is_state(t, b, "r0", "up")
        t.equal(mapped(a, b, 20 + number), ONE, f"after {' '.join(back)}")
    t.equal((events(b)["device-down"], events(b)["device-up"]), (4, 4), "events")
    t.equal(b.daemon.err().count(f"rsockd: r0 is down: {NO_LINK}"), 4, "lines of the log")
    t.equal(b.device("r0")["why_down"], None, "while it is up")
    # Both devices at once: the link goes with the addresses on it.
    ip("-n", b.ns, "link", "del", "rn1")
    is_state(t, b, "r1", "down")
    is_state(t, b, "r0", "down")
    t.equal(mapped(a, b, 30), "refused", "none is left")


@case(timeout=60)
def a_spare_stands_in(t):
    a, b = with_links(t, roles=("active", "spare"), services=[
        {"name": "ha", "ports": [str(SERVICE)], "rdma-port": "18000", "high-availability": True}])
    t.equal(mapped(a, b, 1), ONE, "the active one")
    t.equal(b.device("r1")["state"], "spare", "the other")
    ip("-n", b.ns, "link", "set", "far0", "down")
    is_state(t, b, "r0", "down")
    t.equal(mapped(a, b, 2), TWO, "the spare")
    t.equal(b.device("r1")["state"], "up", "a spare in use")
    ip("-n", b.ns, "link", "set", "far0", "up")
    is_state(t, b, "r0", "up")
    t.equal(mapped(a, b, 3), ONE, "the active one again")


@case(timeout=60)
def an_rdma_device_that_is_removed(t):
    """The RDMA device of an RNIC is removed, and its network link stays up with its address: new
    sessions go to the spare until it is back.
    """
    tree = Tree(t)
    a, b = with_links(t, roles=("active", "spare"), services=[
        {"name": "ha", "ports": [str(SERVICE)], "rdma-port": "18000", "high-availability": True}])
    for number, link in enumerate(("rn0", "rn0", "rn1")):
        tree.add(b, REAL, f"mlx5_{number}", link)
    b.post("/v1/reload", {})
    t.equal((mapped(a, b, 1), b.device("r0")["state"]), (ONE, "up"), "it is there")
    known = f"/proc/{b.daemon.pid}/root/sys/class/infiniband"
    for number, state in ((0, "up"), (1, "down")):
        os.rename(f"{known}/mlx5_{number}", f"{known}/../gone{number}")
        b.post("/v1/reload", {})
        t.equal(b.device("r0")["state"], state, f"without mlx5_{number}")
    t.equal((mapped(a, b, 2), events(b)["device-down"]), (TWO, 1), "the spare")
    os.rename(f"{known}/../gone1", f"{known}/mlx5_1")
    b.post("/v1/reload", {})
    t.equal((mapped(a, b, 3), b.device("r0")["state"]), (ONE, "up"), "it is back")


@case(timeout=60)
def an_rdma_device_that_is_absent_at_the_start(t):
    """The RDMA device of an RNIC is not there when rsockd starts, and that of another one is: it is
    down until it appears. Where there has been no RDMA device at all every RNIC counts as present,
    unless the configuration requires one.
    """
    tree = Tree(t)
    a, b = with_links(t, roles=("active", "spare"), services=[
        {"name": "ha", "ports": [str(SERVICE)], "rdma-port": "18000", "high-availability": True}])
    for number, (watch, wanted) in enumerate(((True, (ONE, "up", None)),
                                              ("rdma", ("refused", "down", NO_RDMA)),
                                              (True, (ONE, "up", None)))):
        b.write_config(**{**b.config, "watch-devices": watch})
        b.post("/v1/reload", {})
        device = b.device("r0")
        t.equal((mapped(a, b, number), device["state"], device["why_down"]), wanted,
                f"no RDMA device at all, watch-devices: {watch}")
    t.stop(b.daemon)
    b.daemon = None
    tree.add(b, REAL, "mlx5_1", "rn1")
    b.restart()
    device = b.device("r0")
    t.equal((device["state"], device["why_down"]), ("down", NO_RDMA), "at the start")
    t.equal(mapped(a, b, 10), TWO, "the spare")
    t.equal(b.daemon.err().count(f"rsockd: r0 is down: {NO_RDMA}"), 1, "lines of the log")
    shown = b.run([t.tool, "policy", "show", "--socket", b.control])
    t.wait(shown, 20)
    t.check(NO_RDMA in shown.out(), f"the tool: {shown.out()}")
    tree.add(b, REAL, "mlx5_0", "rn0")
    b.post("/v1/reload", {})
    t.equal((mapped(a, b, 11), b.device("r0")["state"]), (ONE, "up"), "it appears")


@case(timeout=60)
def what_an_operator_said_stays(t):
    a, b = with_links(t)
    b.post("/v1/drain", {"device": "r0"})
    ip("-n", b.ns, "link", "set", "rn0", "down")
    is_state(t, b, "r0", "down")
    ip("-n", b.ns, "link", "set", "rn0", "up")
    is_state(t, b, "r0", "draining")
    t.equal(mapped(a, b, 1), TWO, "it is drained")
    ip("-n", b.ns, "link", "set", "rn0", "down")
    is_state(t, b, "r0", "down")
    b.post("/v1/drain", {"device": "r0", "on": False})
    t.equal(b.device("r0")["state"], "down", "not there")
    ip("-n", b.ns, "link", "set", "rn0", "up")
    is_state(t, b, "r0", "up")
    t.equal(mapped(a, b, 2), ONE, "in use again")


@case(timeout=60)
def a_daemon_that_was_there_first(t):
    """rsockd starts before its devices exist, and is told when they come; IPv6 addresses once
    duplicate address detection is done.
    """
    (a,) = Lab(t, 1).hosts
    a.start(**serving(a, rnics=[{"name": "r0", "addresses": ["fd78::1"]},
                                {"name": "r1", "addresses": [ONE]}]))
    t.equal([device["state"] for device in a.get("/v1/devices")["devices"]], ["down", "down"],
            "at first")
    ip("-n", a.ns, "link", "add", "rn0", "type", "veth", "peer", "name", "far0")
    for link in ("rn0", "far0"):
        ip("-n", a.ns, "link", "set", link, "up")
    ip("-n", a.ns, "address", "add", "fd78::1/64", "dev", "rn0")
    ip("-n", a.ns, "address", "add", f"{ONE}/32", "dev", "lo")
    is_state(t, a, "r1", "up")
    is_state(t, a, "r0", "up")


@case(timeout=60)
def devices_that_are_not_watched(t):
    a, b = with_links(t, **{"watch-devices": False})
    ip("-n", b.ns, "link", "del", "rn0")
    t.equal(mapped(a, b, 1), ONE, "whatever the kernel says")
    b.write_config(**{**b.config, "watch-devices": True})
    b.post("/v1/reload", {})
    t.equal(mapped(a, b, 2), TWO, "from a reload on")
    b.write_config(**{**b.config, "watch-devices": False})
    b.post("/v1/reload", {})
    t.equal(mapped(a, b, 3), ONE, "and no more")


@case(timeout=60)
def more_changes_than_it_can_hear(t):
    """The kernel drops messages for which a socket has no room; rsockd asks for everything again.
    """
    a, b = with_links(t)
    b.daemon.popen.send_signal(signal.SIGSTOP)
    lines = "".join(f"address add 10.99.{n // 250}.{n % 250 + 1}/32 dev rn1\n" for n in range(2500))
    lines += lines.replace(" add ", " del ") + f"address del {ONE}/32 dev rn0\n"
    subprocess.run(["ip", "-n", b.ns, "-batch", "-"], check=True, input=lines.encode())
    b.daemon.popen.send_signal(signal.SIGCONT)
    is_state(t, b, "r0", "down")
    text = b.get("/metrics")
    t.check(int(re.search(r"rsockd_hotplug_overruns_total (\d+)", text)[1]) > 0, "it was too much")
    t.check(int(re.search(r"rsockd_hotplug_dumps_total (\d+)", text)[1]) > 1,
            "all was asked for again")
    t.equal(int(re.search(r"rsockd_hotplug_malformed_total (\d+)", text)[1]), 0,
            "messages not understood")
    t.equal(mapped(a, b, 1), TWO, "and the other is there")
    ip("-n", b.ns, "address", "add", f"{ONE}/32", "dev", "rn0")
    is_state(t, b, "r0", "up")


if __name__ == "__main__":
    sys.exit(main())
