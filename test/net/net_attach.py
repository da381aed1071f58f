#!/usr/bin/python3
"""How RNICs are attached to their host: the bus limits their bandwidth, and a process gets an RNIC
that is near its processors. The host's /sys is simulated.
"""
import sys

from lib.harness import case, main
import local
from net_local import ALICE, BOB, PORT
from net_cluster import rsock
from net_rdma import RAIL_A, REAL, Connection, Tree, answer, guest, serves
from net_rsockd import asking
from netlab import Lab, ip
import pm

BUS = f"devices/{REAL}/infiniband/mlx5_0/device"
OTHER = "pci0000:00/0000:00:03.0"
SECOND = "10.77.1.1"


def attached(tree, host, lanes="4", node="1"):
    """All processors are of node 0, apart from one that no host has."""
    tree.add(host, REAL, "mlx5_0", "lan")
    for path, text in ((f"{BUS}/current_link_speed", "8.0 GT/s PCIe"),
                       (f"{BUS}/current_link_width", lanes), (f"{BUS}/numa_node", node),
                       ("devices/system/node/node0/cpulist", "0-4094"),
                       ("devices/system/node/node1/cpulist", "4095")):
        tree.put(host, path, text)


def shown(host):
    device = host.device("rnic0")
    return device["bus_bps"] // 10**6, device["numa_node"]


@case(timeout=60)
def near_the_processors(t):
    """The address of a connection is on an RNIC that is far from its process; another one is not
    known to be. rsockd asks the kernel for the process's processors in its sandbox.
    """
    tree = Tree(t)
    a, b = Lab(t, 2).hosts
    attached(tree, a)
    tree.add(a, OTHER, "mlx5_1", "rn0")
    ip("-n", a.ns, "link", "add", "rn0", "type", "veth", "peer", "name", "far0")
    for link in ("rn0", "far0"):
        ip("-n", a.ns, "link", "set", link, "up")
    ip("-n", a.ns, "address", "add", f"{SECOND}/24", "dev", "rn0")
    a.start(**asking(a, rnics=[{"name": "rnic0", "addresses": [a.ip]},
                               {"name": "near", "addresses": [SECOND], "reach": [f"{b.ip}/32"]}]))
    b.start(**serves(b))
    t.equal((shown(a), a.device("near")["numa_node"]), ((28807, 1), -1), "as /sys shows them")
    c = Connection(a, b)
    client = guest(a, BOB, RAIL_A)
    client.look_up(c.near, True)
    reason, said = answer(t, client, "LOOKUP")
    t.equal((reason, said["from_ip"]), ("mapped", pm.packed(SECOND)), "from the near one")
    t.equal((a.device("near")["sessions"], a.device("rnic0")["sessions"]), (1, 0), "booked there")
    # The accepting side of the same host, by the process that listens.
    c = Connection(b, a, connecting=BOB, accepting=ALICE)
    server = guest(a, ALICE, 0)
    server.say(local.LISTEN, **c.listening())
    t.until(lambda: a.figure("listeners") == 1, 10, "the listener")
    steps = a.post("/v1/explain", {"ip": a.ip, "port": PORT, "from": b.ip, "side": "ap"})["steps"]
    t.check(any("device rnic0: has room" in step and "runs on other NUMA nodes" in step
                for step in steps), steps)


@case(timeout=60)
def a_narrow_bus(t):
    """A port of 25 Gbit/s behind one lane; a session needs 5, and two do not fit the bus."""
    tree = Tree(t)
    a, b = Lab(t, 2).hosts
    attached(tree, b, lanes="1", node="-1")
    a.start(**asking(a))
    b.start(**serves(b, bandwidth="5Gbit"))
    t.equal((shown(b), b.device("rnic0")["bps_max"]), ((7201, -1), b.device("rnic0")["bus_bps"]),
            "the bus, not the port's 25")
    t.equal(a.map(b, PORT, cp_port=1)["outcome"], "mapped", "one")
    t.equal(a.map(b, PORT, cp_port=2)["outcome"], "refused", "two")
    t.check("7.20" in rsock(t, b, "show"), "the tool shows it")


if __name__ == "__main__":
    sys.exit(main())
