#!/usr/bin/python3
"""Which differentiated service processes are told that their streams get: with the mapping, and
again when the configuration changes.
"""
import sys

import local
import pm
from lib.harness import case, main
from net_local import ALICE, BOB, PORT
from net_rdma import RAIL_A, RAIL_B, Connection, answer, at, guest, hosts, link, looked_up, silent
from net_rsockd import serving


def service(**qos):
    return [{"name": "it", "ports": [str(PORT)], **qos}]


def told(t, client, handle, rate, dscp, what, priority=0):
    message, _fds = client.hear(qos=True)
    t.check(message, what)
    t.equal(tuple(message[key] for key in ("type", "link", "rate", "dscp", "priority")),
            (local.QOS, handle or message["link"], rate, dscp, priority), what)
    return message


def unasked(t, client):
    """Checks that it was told nothing: the next message must be the answer to another question."""
    client.say(local.LOOKUP, netns=1, local=b"\1", peer=b"\2", local_port=1, peer_port=2, family=2,
               cookie=77)
    message, _fds = client.hear(qos=True)
    t.equal(message and (message["type"], message["cookie"]), (local.ANSWER, 77), "told again")


def used(t, a, b, c, server, client):
    """Maps the connection, and both ends use it. Returns the mapping's name."""
    looked_up(t, server, c.far, False, "remote")
    client.look_up(c.near, True)
    first = told(t, client, None, 200_000, 46, "before the mapping")
    reason, said = answer(t, client, "LOOKUP")
    t.equal((reason, said["link"], first["cookie"]), ("mapped", first["link"], said["cookie"]),
            "the mapping")
    link(t, server, c.far, said["link"], **at(b, RAIL_B, from_ip=pm.packed(a.ip)))
    t.equal(answer(t, server, "LINK")[0], "mapped", "let in")
    told(t, server, said["link"], 1_000_000, 10, "behind the admission")
    link(t, client, c.near, said["link"], flags=local.CONNECTING, from_ip=pm.packed(a.ip))
    unasked(t, client)
    return said["link"]


@case(timeout=60)
def with_the_mapping_and_again(t):
    a, b = hosts(t, {"services": service(rate="200kbit", dscp=46)},
                 {"services": service(rate="1Mbit", dscp=10)})
    c = Connection(a, b)
    server, client = guest(b, ALICE, RAIL_B), guest(a, BOB, RAIL_A)
    handle = used(t, a, b, c, server, client)
    for qos, rate, dscp in (({"rate": "2Mbit", "dscp": 10}, 2_000_000, 10),
                            ({"dscp": 63}, 0, 63), ({}, 0, 0)):
        b.write_config(**{**serving(b), "services": service(**qos)})
        b.post("/v1/reload", {})
        told(t, server, handle, rate, dscp, f"after a reload: {qos}")
    b.post("/v1/reload", {})
    unasked(t, server)
    unasked(t, client)
    server.say(local.UNLINK, link=handle)
    silent(t, server)
    b.write_config(**{**serving(b), "services": service(dscp=9)})
    b.post("/v1/reload", {})
    unasked(t, server)


@case(timeout=60)
def none_is_not_told(t):
    a, b = hosts(t)
    c = Connection(a, b)
    server, client = guest(b, ALICE, RAIL_B), guest(a, BOB, RAIL_A)
    looked_up(t, server, c.far, False, "remote")
    client.look_up(c.near, True)
    message, _fds = client.hear(qos=True)
    t.equal(message["type"], local.ANSWER, "the first message")
    link(t, server, c.far, message["link"], **at(b, RAIL_B, from_ip=pm.packed(a.ip)))
    t.equal(answer(t, server, "LINK")[0], "mapped", "let in")
    unasked(t, server)
    a.post("/v1/reload", {})
    unasked(t, client)


def of_priority(t, a, b, server, client, port, priority):
    """Maps a connection to a service of that priority, and the accepting end uses it. Returns the
    mapping's name.
    """
    c = Connection(a, b, port=port)
    looked_up(t, server, c.far, False, "remote")
    said = looked_up(t, client, c.near, True, "mapped")
    link(t, server, c.far, said["link"], **at(b, RAIL_B, from_ip=pm.packed(a.ip)))
    t.equal(answer(t, server, "LINK")[0], "mapped", "let in")
    told(t, server, said["link"], 0, 0, "behind the admission", priority)
    return said["link"]


@case(timeout=180)
def low_priorities_are_slowed(t):
    """While a node is overloaded, a stream of a low priority has a rate, and one of a high priority
    has none; when the overload ends, neither has.
    """
    busy = t.spawn(["sh", "-c", "while :; do :; done"], preload=False)
    t.until(lambda: float(open("/proc/loadavg").read().split()[0]) > 0.05, 60, "some load")
    services = [{"name": "low", "ports": [str(PORT)], "priority": 1},
                {"name": "high", "ports": [str(PORT + 1)], "priority": 6}]
    a, b = hosts(t, of_b={"services": services})
    server, client = guest(b, ALICE, RAIL_B), guest(a, BOB, RAIL_A)
    server.socket.settimeout(60)
    low = of_priority(t, a, b, server, client, PORT, 1)
    of_priority(t, a, b, server, client, PORT + 1, 6)
    for limit, overloaded, rate in ((0.0001, 1, 1_000_000), (1000, 0, 0)):
        b.write_config(**{**serving(b), "services": services,
                          "overload": {"load": limit, "rate": "1Mbit"}})
        b.post("/v1/reload", {})
        told(t, server, low, rate, 0, f"overloaded from a load of {limit} on", 1)
        unasked(t, server)  # not about the stream of the high priority
        t.equal(b.figure("node_overloaded"), overloaded, "overloaded")
    unasked(t, client)  # the other host is not overloaded
    t.kill(busy)


if __name__ == "__main__":
    sys.exit(main())
