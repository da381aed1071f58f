#!/usr/bin/python3
"""Differentiated service between two hosts: the rate and the DSCP that policy gives a service are
those of its streams, over RDMA and over TCP, also when policy changes while they run.
"""
import json
import sys
import time

from guest import ROOT
from hosts import (FIRM, Peer, both_ways, configuration, connect, earn, ends, hosts, pair,
                   queue_pairs, said)
from rdmalab import SCALE, case, lab, main

RATE = 4_000_000  # bits per second; a guest manages ten times that
SECONDS = 15
DSCP = 46
MARKS = {"roce": "ip_proto udp dst_port 4791", "tcp": "ip_proto tcp"}


def services(rate=RATE, dscp=DSCP):
    return [{"name": "any", "ports": ["1-65535"], "rate": f"{rate}bit", "dscp": dscp}]


def reload(guests, **changed):
    for guest in guests:
        guest.config = {**guest.config, **configuration(guest, **changed)}
        guest.write("/run/rsock/rsockd.conf", json.dumps(guest.config, indent=1))
        status, body = guest.ask("POST", "/v1/reload")
        if status != 200:
            raise AssertionError(f"reload: {status} {body}")


class Marked:
    """Counts what a guest sends with and without a DSCP, of RoCE or of TCP."""

    def __init__(self, guest, what, dscp, port=None):
        self.guest, rules = guest, []
        for pref, extra in ((1, f"ip_tos {dscp << 2:#x}/0xfc"), (2, "")):
            match = MARKS[what] + (f" src_port {port}" if port else "")
            rules.append(f"tc filter add dev {guest.netdev} egress pref {pref} protocol ip "
                         f"flower {match} {extra} action pass\n")
        guest.sh(f"tc qdisc del dev {guest.netdev} clsact 2>/dev/null || true\n"
                 f"tc qdisc add dev {guest.netdev} clsact\n" + "".join(rules))

    def counts(self):
        """(packets with the DSCP, others)"""
        shown = json.loads(self.guest.sh(f"tc -s -j filter show dev {self.guest.netdev} egress"))
        found = {1: 0, 2: 0}
        for rule in shown:
            for action in rule.get("options", {}).get("actions", []):
                found[rule["pref"]] += action.get("stats", {}).get("packets", 0)
        self.guest.sh(f"tc qdisc del dev {self.guest.netdev} clsact")
        return found[1], found[2]


def measured(one, other, bps, io="block"):
    """Moves what takes SECONDS at that rate; the sender waits for room by @io. Returns how long it
    took, as a part of that.
    """
    size = bps * SECONDS // 8
    began = time.monotonic()
    one.flow(io, size, 0)
    other.flow("block", 0, size)
    one.result(SECONDS * SCALE)
    other.result(SECONDS * SCALE)
    took = (time.monotonic() - began) / SECONDS
    print(f"{size} bytes took {took:.3f} of the time at {bps} bit/s", flush=True)
    return took


def by_ring(t, port, had=0):
    record = ends(t, port)[0]
    return record.get("tx_ring_bytes", 0) - had


@case(400)
def rate_and_dscp(t):
    """A stream over RDMA is sent at the rate of its service, within 5 %, with its DSCP."""
    guests = hosts(t, services=services())
    server, client, port = pair(t, env=FIRM)
    earn(t, client, server, port)
    seen, had = Marked(guests[1], "roce", DSCP), by_ring(t, port)
    took = measured(server, client, RATE)
    t.check(0.95 < took < 1.05, f"took {took:.3f} of the time")
    sent = by_ring(t, port, had)
    t.check(sent > 0.9 * RATE * SECONDS / 8, f"by ring: {sent} bytes: {said(ends(t, port))}")
    marked, others = seen.counts()
    t.check(marked > 100 and others == 0, f"packets: {marked} with DSCP {DSCP}, {others} without")
    seen = Marked(guests[0], "roce", DSCP)
    took = measured(client, server, RATE)
    marked, others = seen.counts()
    t.check(0.95 < took < 1.05, f"the other way it took {took:.3f} of the time")
    t.check(marked > 100 and others == 0, f"the other way: {marked}, {others} without")


@case(400)
def who_waits_for_room(t):
    """A program that waits by poll() or epoll_wait() before each send is told of the room as it
    comes.
    """
    hosts(t, services=services())
    server, client, port = pair(t, env=FIRM)
    earn(t, client, server, port)
    for io in "poll", "epoll", "edge":
        took = measured(server, client, RATE, io)
        t.check(0.95 < took < 1.05, f"by {io} it took {took:.3f} of the time")


@case(400)
def over_tcp(t):
    """The same while TCP is the path."""
    guests = hosts(t, services=services())
    server, client, port = pair(t, env=FIRM)
    earn(t, client, server, port)
    for peer in server, client:
        peer.guest.run([f"{ROOT}/bin/rsock", "demote", "--wait", 0, peer.handle.pid])

    def fallen_back():
        both_ways(client, server, 2000, 2000)
        return all(end.get("tx") == end.get("rx") == "tcp" for end in ends(t, port))
    lab(t)[1].until(fallen_back, 60, "the stream on TCP")
    seen = Marked(guests[1], "tcp", DSCP, port)
    took = measured(server, client, RATE)
    marked, others = seen.counts()
    t.check(0.95 < took < 1.07, f"took {took:.3f} of the time: {said(ends(t, port))}")
    t.check(marked > 100 and others == 0, f"packets: {marked} with DSCP {DSCP}, {others} without")


@case(400)
def changed_while_it_runs(t):
    """A new configuration changes the rate of a stream that exists, and takes it away again."""
    guests = hosts(t)
    server, client, port = pair(t, env=FIRM)
    earn(t, client, server, port)
    reload(guests, services=services(dscp=0))
    took = measured(server, client, RATE)
    t.check(0.95 < took < 1.05, f"took {took:.3f} of the time")
    reload(guests, services=services(rate=2 * RATE, dscp=0))
    took = measured(server, client, 2 * RATE)
    t.check(0.95 < took < 1.05, f"at twice the rate it took {took:.3f} of the time")
    reload(guests)
    took = measured(server, client, RATE)
    t.check(took < 0.7, f"without a rate it took {took:.3f} of the time")


@case(400)
def a_link_for_each_class(t):
    """Streams of two services between the same processes: each DSCP has rails of its own."""
    ports = [t.free_port(), t.free_port()]
    guests = hosts(t, services=[{"name": "low", "ports": [str(ports[0])], "dscp": 8},
                                {"name": "high", "ports": [str(ports[1])], "dscp": DSCP}])
    server = Peer(guests[1], guests[1].ip, env=FIRM)
    client = Peer(guests[0], guests[1].ip, env=FIRM)
    rails = []
    for port, dscp in zip(ports, (8, DSCP)):
        server.ask("listening", "listen", port)
        connect(server, client, port)
        earn(t, client, server, port)
        rails.append(len(queue_pairs(guests[0])))
        seen = Marked(guests[1], "roce", dscp)
        server.flow("block", 1 << 20, 0)
        client.flow("block", 0, 1 << 20)
        server.result()
        client.result()
        marked, _others = seen.counts()
        t.check(marked > 100, f"{marked} packets with DSCP {dscp}")
    t.equal(rails, [1, 2], "queue pairs after the first stream, after the second")


if __name__ == "__main__":
    sys.exit(main(guests=2))
