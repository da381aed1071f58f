#!/usr/bin/python3
"""Overload: devices and a node that cross their limits; which sessions are moved, slowed or
refused, and who is told.
"""
import sys

import pm
from lib.harness import case, main
from net_hotplug import events, mapped
from net_policy import ap_with
from net_rsockd import SERVICE, asking, serving
from netlab import Lab

ONE, TWO = "10.77.1.1", "10.77.1.2"


@case(timeout=60)
def sessions_leave_a_device(t):
    lab = Lab(t, 2)
    a = lab.hosts[0].start(**asking(lab.hosts[0]))
    b = ap_with(lab, 1, {"r0": ONE, "r1": TWO}, overload={"device-load": "50%"},
                aggregates=[{"address": lab.hosts[1].ip, "over": ["r0", "r1"], "choose": "order"}])
    client = pm.Client(a, b.ip)
    first = client.handle()
    client.send(pm.REQ, b.ip, SERVICE, 1, first)
    accept = client.hear()
    t.equal((accept["op"], accept["ap"]), (pm.ACCEPT, ONE), "the first of them")
    client.acknowledge(accept)
    for number in range(2, 6):
        t.equal(mapped(a, b, number), ONE, f"session {number}")
    t.check(b.device("r0")["overloaded"] and b.device("r0")["state"] == "up",
            "half of it is promised")
    t.equal(mapped(a, b, 6), TWO, "the next one goes to the other")
    t.equal(mapped(a, b, 7), TWO, "and so on")
    # PmTime of the first runs: it is asked for again, and moves.
    client.send(pm.REQ, b.ip, SERVICE, 1, first)
    accept = client.hear()
    t.equal((accept["op"], accept["ap"], accept["handle"]), (pm.ACCEPT, TWO, first),
            "by a changed address")
    client.acknowledge(accept)
    t.check(not b.device("r0")["overloaded"], "which was enough")
    t.until(lambda: b.device("r1")["promised"] == 0, 20, "all to be given back")
    t.equal((events(b)["device-overload"], events(b)["device-relief"]), (1, 1), "events")
    t.equal(b.daemon.err().splitlines(),
            ["rsockd: r0 has too much to do", "rsockd: r0 has less to do again"], "the log")
    t.check('rsockd_device_overloaded{device="r0",node="host2"} 0' in b.get("/metrics"),
            "the metrics")


@case(timeout=120)
def low_priorities_leave_a_node(t):
    """On a busy node the lowest priority is refused, the middle one goes on, and the highest is not
    affected.
    """
    a, b = Lab(t, 2).hosts
    busy = t.spawn(["sh", "-c", "while :; do :; done"], preload=False)
    t.until(lambda: float(open("/proc/loadavg").read().split()[0]) > 0.05, 60, "some load")
    services = [{"name": name, "ports": [str(SERVICE + priority)], "priority": priority}
                for name, priority in (("low", 1), ("middle", 2), ("high", 5))]
    b.start(**serving(b, services=services,
                      overload={"load": 0.0001, "refuse-below-priority": 2, "rate": "1Gbit"}))
    a.start(**asking(a))
    outcomes = {priority: a.map(b, SERVICE + priority, cp_port=1)["outcome"]
                for priority in (1, 2, 5)}
    t.equal(outcomes, {1: "refused", 2: "mapped", 5: "mapped"}, "by priority")
    answer = b.post("/v1/explain", {"side": "ap", "ip": b.ip, "port": SERVICE + 1, "from": a.ip})
    t.equal(answer["verdict"], "overload", answer)
    t.check(any("its node is overloaded" in step and "priority 1 is less than 2" in step
                for step in answer["steps"]),
            answer)
    answer = b.post("/v1/explain", {"side": "ap", "ip": b.ip, "port": SERVICE + 2, "from": a.ip})
    t.check("service rate: 1000000000 bit/s, since its node is overloaded" in answer["steps"],
            answer)
    t.equal((events(b)["node-overload"], events(b)["node-relief"]), (1, 0), "events")
    t.check("rsockd_node_overloaded 1" in b.get("/metrics"), "the metrics")
    b.write_config(**{**b.config, "overload": {"load": 1000, "refuse-below-priority": 2}})
    b.post("/v1/reload", {})
    t.equal(a.map(b, SERVICE + 1, cp_port=2)["outcome"], "mapped",
            "with a limit that is not reached")
    t.equal((events(b)["node-overload"], events(b)["node-relief"]), (1, 1), "events")
    t.equal(b.daemon.err().splitlines(), ["rsockd: this node has too much to do",
                                          "rsockd: this node has less to do again"], "the log")
    t.kill(busy)


if __name__ == "__main__":
    sys.exit(main())
