#!/usr/bin/python3
"""RDMA devices that are removed and added again while streams use them, with one device and with
two: no stream notices.
"""
import json
import sys

from hosts import FIRM, both_ways, earn, ends, hosts, pair, said, serve
from rdma_faults import (endless, goes_on, until_promoted, until_promoted_or_wedged,
                         wind_up)
from rdmalab import case, lab, main

# each stream by its own device only; rdma_rails.py tests those that use both
ALONE = {"RSOCK_RDMA_RAILS": "1"}


def remove(guest, rnic):
    """Removes a device, and waits until no process holds it any more and it is gone."""
    guest.run(["rdma", "link", "delete", rnic], timeout=60, expect=0)


def add(guest, rnic):
    guest.sh(f"rdma link add {rnic} type rxe netdev eth{rnic[-1]}")


def both(t):
    """Both guests, with rsockd that has two devices."""
    guests = lab(t).guests
    for guest in guests:
        rnics = [{"name": f"rxe{link}", "addresses": [f"10.9.{link}.{guest.number}"],
                  "bandwidth": "10Gbit", "sessions": 10000}
                 for link in (0, 1)]
        serve(guest, rnics=rnics)
    return guests


def until_off(t, port, seconds=60):
    """Waits until both ends send by TCP."""
    def there():
        return all(record.get("tx") == "tcp" and "link-broken" in said([record])
                   for record in ends(t, port))
    lab(t)[1].until(there, seconds, "both ends to be back on TCP")


def used(guest):
    """{device: number of connected queue pairs}."""
    count = {}
    for qp in json.loads(guest.sh("rdma -j resource show qp")):
        if qp.get("type") == "RC" and qp.get("state") == "RTS":
            count[qp["ifname"]] = count.get(qp["ifname"], 0) + 1
    return count


def goes_and_comes(t, at):
    """The device of one guest is removed under load and added again; then old and new streams use
    it.
    """
    guests = hosts(t)
    server, client, port = pair(t, env=ALONE)
    idle = pair(t, env=ALONE)  # sends nothing while the device is gone
    for one in ((server, client, port), idle):
        earn(t, one[1], one[0], one[2])
    endless(client, server)
    goes_on(t, (server, client), 200_000, 60, "both to move")
    remove(guests[at], "rxe0")
    until_off(t, port)
    goes_on(t, (server, client), 200_000, 60, "both to go on by TCP")
    both_ways(idle[1], idle[0], 20_000, 20_000)
    before = ends(t, port)
    add(guests[at], "rxe0")
    until_promoted(t, port, 120, before)
    goes_on(t, (server, client), 200_000, 60, "both to go on by the new device")
    wind_up(t, server, client)  # ends the load: a new process must be admitted within seconds
    earn(t, idle[1], idle[0], idle[2], 120)
    new = pair(t, env=ALONE)
    earn(t, new[1], new[0], new[2], 120)
    for peer in (*idle[1::-1], *new[1::-1]):
        peer.finish()


@case(500)
def servers_device_removed(t):
    goes_and_comes(t, 1)


@case(500)
def clients_device_removed(t):
    goes_and_comes(t, 0)


@case(500)
def two_devices(t):
    """Streams over both devices, each by the device of its address. One device goes: its streams
    continue, the others do not notice.
    """
    a, b = both(t)
    first, second = pair(t, env={**FIRM, **ALONE}), pair(t, "ip_1", env=ALONE)
    for server, client, port in (first, second):
        earn(t, client, server, port)
    for guest in (a, b):
        t.equal(used(guest), {"rxe0": 1, "rxe1": 1}, f"queue pairs of {guest.name}")
    for server, client, _port in (first, second):
        endless(client, server)
    for server, client, _port in (first, second):
        goes_on(t, (server, client), 200_000, 60, "both to move")
    remove(b, "rxe1")
    until_off(t, second[2])
    for server, client, _port in (first, second):
        goes_on(t, (server, client), 200_000, 60, "both to go on without it")
    before = ends(t, second[2])
    add(b, "rxe1")
    until_promoted(t, second[2], 120, before)
    for record in ends(t, first[2]):
        t.check(all(cause != "link-broken"
                    for cause in (entry["cause"] for entry in record["history"])),
                f"the other device's: {said([record])}")
    for server, client, _port in (first, second):
        goes_on(t, (server, client), 200_000, 60, "both to go on with it")
    for server, client, _port in (first, second):
        wind_up(t, server, client)


@case(500)
def one_of_two_links_down(t):
    """One of two links goes down, with its TCP: what it carries stands still, the other one
    continues; both continue when it is up.
    """
    _a, b = both(t)
    first, second = pair(t, env={**FIRM, **ALONE}), pair(t, "ip_1", env=ALONE)
    for server, client, port in (first, second):
        earn(t, client, server, port)
        endless(client, server)
        goes_on(t, (server, client), 200_000, 60, "both to move")
    b.cable(False, 1)
    goes_on(t, first[:2], 400_000, 60, "the other link's to go on")
    b.sh("sleep 3")
    b.cable(True, 1)
    before = ends(t, second[2])
    goes_on(t, second[:2], 200_000, 120, "both to go on")
    until_promoted_or_wedged(t, second[2], 120, before)
    for record in ends(t, first[2]):
        t.check("link-broken" not in said([record]), f"the other device's: {said([record])}")
    for server, client, _port in (first, second):
        wind_up(t, server, client)


if __name__ == "__main__":
    sys.exit(main(links=2))
