#!/usr/bin/python3
"""Spare RNICs, N+1 and N+M. Each guest has up to four RDMA devices in one network, as on a switched
fabric, and its TCP in another one. Active devices die one by one, in both ways that a device can:
its link goes down, or the device is removed. Streams go on, new sessions go to the other active
devices, then to the spares, and a device that comes back is used again.
"""
import itertools
import re
import sys

from hosts import FIRM, Peer, connect, earn, ends, said, serve, wedged
from rdma_devices import remove
from rdma_faults import endless, goes_on, wind_up
from rdma_rails import stayed
from rdmalab import case, lab, main

HA = range(7001, 7100)  # ports of the service of high availability
PLAIN = range(8001, 8100)
PORTS = {name: itertools.cycle(ports) for name, ports in (("ha", HA), ("plain", PLAIN))}
CP_PORTS = itertools.count(20000)
# All devices of the fabric are on one link of the guest. Each answers for its own address only.
FABRIC = """
rdma link del rxe0
sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
for n in 1 2 3 4; do
	[ ! -e /sys/class/net/m$n ] || ip link del m$n
done
for n in $(seq {count}); do
	ip link add link eth0 name m$n type macvlan mode bridge
	ip address add 10.9.7.{guest}$n/24 dev m$n
	ip link set m$n mtu 4500 up
	rdma link add r$n type rxe netdev m$n
done
"""


def address(guest, number):
    return f"10.9.7.{guest.number}{number}"


def down(guest, number):
    guest.link(False, f"m{number}")


def up(guest, number):
    """The link is up again. A device by which no connection succeeds any more, since a send failed
    while its link was down, is made anew (README.md).
    """
    guest.link(True, f"m{number}")
    if f"r{number}" in wedged(guest):
        remove(guest, f"r{number}")
        add(guest, number)


def add(guest, number):
    guest.sh(f"rdma link add r{number} type rxe netdev m{number}")


def fabric(t, active, spares, sessions=None):
    """Both guests, with rsockd that knows so many devices; spares: the order of each. sessions:
    {number: limit} of the accepting guest's devices.
    """
    count = active + len(spares)
    for guest in lab(t).guests:
        guest.sh(FABRIC.replace("{count}", str(count)).replace("{guest}", str(guest.number)))
        rnics = [{"name": f"m{number}", "addresses": [address(guest, number)], "sessions": 1000}
                 for number in range(1, count + 1)]
        for rnic, order in zip(rnics[active:], spares):
            rnic.update(role="spare", order=order)
        for number, most in (sessions or {}).items():
            if guest is lab(t)[2]:
                rnics[number - 1]["sessions"] = most
        # What leads_to() is promised is held until the end of the case.
        serve(guest, rnics=rnics, pmsp={"accept-time": "10min"},
              aggregates=[{"address": guest.ip, "over": [rnic["name"] for rnic in rnics]}],
              services=[{"name": "ha", "ports": [f"{HA[0]}-{HA[-1]}"], "high-availability": True},
                        {"name": "plain", "ports": [f"{PLAIN[0]}-{PLAIN[-1]}"]}])
    return lab(t).guests


def is_state(guest, number, state):
    guest.until(lambda: guest.device(f"m{number}")["state"] == state, 30,
                f"m{number} of {guest.name} to be {state}: {guest.get('/v1/devices')}")


def leads_to(t, service):
    """The number of the device to which the accepting guest maps a new session; 0: none."""
    a, b = lab(t).guests
    answer = a.map(b, next(PORTS[service]), cp_port=next(CP_PORTS))
    if answer["outcome"] != "mapped":
        t.equal(answer["outcome"], "refused", f"a session of {service}: {answer}")
        return 0
    return int(answer["rdma"]["ip"].rsplit(".", 1)[1]) % 10


def fill(t, service, number):
    """New sessions, until that device has no room left; further rails of streams take some, too."""
    t.equal(leads_to(t, service), number, f"the first of {service}")
    while leads_to(t, service) == number:
        pass


def stream(t, service, env=None):
    """A stream between two new processes, so that it has a link of its own."""
    a, b = lab(t).guests
    port = next(PORTS[service])
    server, client = (Peer(guest, b.ip, env={**FIRM, **(env or {})}) for guest in (b, a))
    server.ask("listening", "listen", port)
    connect(server, client, port)
    earn(t, client, server, port)
    return server, client, port


def by(record):
    """Numbers of its end's devices. Their names are short, so that the record has room for four."""
    return {int(number) for number in re.findall(r"\br(\d)", record.get("device", ""))}


def until_by(t, port, guest, numbers):
    """Waits until the end in that guest has rails over these devices and no others."""
    end = 0 if guest is lab(t)[2] else 1
    guest.until(lambda: by(ends(t, port)[end]) == numbers, 90,
                f"rails by {numbers} in {guest.name}: {said(ends(t, port))}")


def until_by_ring(t, port, before):
    """Waits until both ends have moved more bytes by ring, both ways, than before. A stream whose
    only rail dies falls back to TCP and is promoted again, unless a rail by the spare was made
    before the processes saw the first one die.
    """
    more = ("tx_ring_bytes", "rx_ring_bytes")
    lab(t)[1].until(lambda: all(now[name] > then[name] + 100_000
                                for now, then in zip(ends(t, port), before) for name in more),
                    90, f"both ends to use the ring: {said(ends(t, port))}")


def end(*peers):
    for peer in peers:
        peer.finish()


@case(400)
def two_and_one(t):
    """The link of one of two active devices goes down: streams keep the ring, by the other one,
    which also gets the new sessions; one of high availability that finds no room there goes to the
    spare. The other device is removed, too: the spare carries the streams. The first to die is
    back: the spare gives way.
    """
    _a, b = fabric(t, 2, [0], sessions={1: 8, 2: 8})
    server, client, port = stream(t, "plain")
    # By this device's address the two processes also speak TCP (docs/adr/rails.md).
    first = next(number for number in (1, 2) if b.device(f"m{number}")["sessions"])
    second = 3 - first
    endless(client, server)
    until_by(t, port, b, {1, 2})
    t.check(leads_to(t, "ha") != 3, "the spare, and none has failed")
    down(b, second)
    is_state(b, second, "down")
    until_by(t, port, b, {first})
    goes_on(t, (server, client), 300_000, 60, "both to go on by the other")
    stayed(t, port)
    fill(t, "plain", first)
    t.equal((leads_to(t, "plain"), leads_to(t, "ha")), (0, 3), "of each service, without room")
    other = stream(t, "ha")
    t.check(3 in by(ends(t, other[2])[0]), f"by the spare: {said(ends(t, other[2]))}")
    t.equal(b.device("m3")["state"], "up", "a spare in use")
    before = ends(t, port)
    remove(b, f"r{first}")
    is_state(b, first, "down")
    until_by(t, port, b, {3})
    until_by_ring(t, port, before)
    goes_on(t, (server, client), 300_000, 60, "both to go on by the spare")
    t.equal((leads_to(t, "plain"), leads_to(t, "ha")), (0, 3), "of each service")
    up(b, second)
    is_state(b, second, "up")
    until_by(t, port, b, {second})
    goes_on(t, (server, client), 300_000, 60, "both to go on by the first")
    t.equal((leads_to(t, "plain"), leads_to(t, "ha")), (second, second), "of each service")
    end(other[1], other[0])
    wind_up(t, server, client)


@case(400)
def one_and_two_by_order(t):
    """Of two spares the one of lower order replaces the only active device; the other one only when
    that is dead as well, though a full one has no room: as many as have failed. So do new sessions
    of the other side's choice.
    """
    a, b = fabric(t, 1, [2, 1], sessions={3: 8})
    t.equal((leads_to(t, "ha"), leads_to(t, "plain")), (1, 1), "all are up")
    remove(b, "r1")
    is_state(b, 1, "down")
    t.equal(leads_to(t, "plain"), 0, "no spare for this service")
    server, client, port = stream(t, "ha")
    t.equal([b.device(f"m{number}")["sessions"] for number in (2, 3)], [0, 1], "its session")
    fill(t, "ha", 3)
    t.equal(leads_to(t, "ha"), 0, "one has failed, and the spare for it is full")
    endless(client, server)
    before = ends(t, port)
    remove(b, "r3")
    is_state(b, 3, "down")
    until_by(t, port, b, {2})
    until_by_ring(t, port, before)
    t.equal(leads_to(t, "ha"), 2, "the second spare")
    add(b, 1)
    is_state(b, 1, "up")
    t.equal((leads_to(t, "ha"), leads_to(t, "plain")), (1, 1), "the active one is back")
    until_by(t, port, b, {1})
    goes_on(t, (server, client), 300_000, 60, "both to go on by it")
    t.equal(by(ends(t, port)[1]), {1}, "the other end was not affected")
    wind_up(t, server, client)
    # The connecting side chooses among its own devices, in the same way.
    is_state(a, 2, "spare")
    down(a, 1)
    is_state(a, 1, "down")
    server, client, port = stream(t, "ha")
    t.check(3 in by(ends(t, port)[1]), f"by the first spare: {said(ends(t, port))}")
    t.equal([a.device(f"m{number}")["sessions"] for number in (2, 3)], [0, 1], "its sessions")
    end(client, server)


@case(400)
def two_and_two(t):
    """Both active devices of the connecting side die, one after the other: two spares stand in for
    two, and each stream's link comes from the spare that policy has chosen.
    """
    a, b = fabric(t, 2, [0, 0])
    first = stream(t, "ha")
    until_by(t, first[2], a, {1, 2})
    remove(a, "r1")
    is_state(a, 1, "down")
    second = stream(t, "ha")
    until_by(t, second[2], a, {2})
    remove(a, "r2")
    is_state(a, 2, "down")
    for server, client, port in (first, second):
        a.until(lambda port=port: set() < by(ends(t, port)[1]) <= {3, 4}, 60,
                f"rails by the spares: {said(ends(t, port))}")
        earn(t, client, server, port)
    third = stream(t, "ha")
    spares = {number for number in (3, 4) if a.device(f"m{number}")["sessions"]}
    t.equal(len(spares), 1, "its session")
    for number in (1, 2):
        add(a, number)
        is_state(a, number, "up")
    for one in (first, second):
        until_by(t, one[2], a, {1, 2})
    # Its rails were all over the spares, and its first rail is the mapping's.
    until_by(t, third[2], a, {1, 2} | spares)
    for server, client, port in (first, second, third):
        earn(t, client, server, port)
        end(client, server)
    # The accepting side holds what it promises: the load of each spare counts at the next session.
    for number in (1, 2):
        down(b, number)
        is_state(b, number, "down")
    t.equal({leads_to(t, "ha") for _ in range(6)}, {3, 4}, "two spares for two")
    up(b, 1)
    is_state(b, 1, "up")
    t.equal({leads_to(t, "ha") for _ in range(3)}, {1}, "one is back")


if __name__ == "__main__":
    sys.exit(main())
