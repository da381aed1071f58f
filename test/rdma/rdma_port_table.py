#!/usr/bin/python3
"""Further rails and rsockd's port table. A device that is drained, full or spare gives no rail.
When a device is drained while it is in use its rail ends; a spare device takes over and gives way
again; no stream loses a byte.
"""
import sys
import time

from hosts import FIRM, earn, ends, pair, said, serve
from rdma_devices import add, remove, used
from rdma_faults import endless, goes_on, until_promoted, wind_up
from rdma_rails import rails_of, stayed
from rdmalab import case, lab, main


def hosts(t, second=None, **changed):
    """Both guests, with rsockd that knows both devices; second: further keys of the second device.
    """
    for guest in lab(t).guests:
        rnics = [{"name": f"rxe{link}", "addresses": [f"10.9.{link}.{guest.number}"],
                  "sessions": 10000, **(second or {} if link else {})}
                 for link in (0, 1)]
        serve(guest, rnics=rnics, **changed)
    return lab(t).guests


def drain(guest, on=True):
    guest.post("/v1/drain", {"device": "rxe1", "on": on})


def until_rails(t, port, n, what):
    lab(t)[1].until(lambda: all(rails_of(record) == n for record in ends(t, port)), 90,
                    f"{what}: {said(ends(t, port))}")


def reserved(guest):
    return [guest.device(name)["rails"] for name in ("rxe0", "rxe1")]


def until_reserved(t, wanted):
    lab(t)[1].until(lambda: all(reserved(guest) == wanted for guest in lab(t).guests), 30,
                    f"{wanted} to be reserved: {[reserved(guest) for guest in lab(t).guests]}")


def passes(t, seconds):
    begun = time.monotonic()
    lab(t)[1].until(lambda: time.monotonic() - begun > seconds, seconds + 30, "time to pass")


def stays_one(t, port):
    """Checks that no further rail is made; an attempt would have succeeded by the end of the wait.
    """
    passes(t, 4)
    t.check(all(rails_of(record) == 1 for record in ends(t, port)), said(ends(t, port)))
    for guest in lab(t).guests:
        t.equal(used(guest), {"rxe0": 1}, f"queue pairs of {guest.name}")


@case(500)
def of_a_drained_device_there_is_none(t):
    """Drained at either end. When it is not drained any more there is a rail, and both ends have
    reserved their share.
    """
    for drained in hosts(t):
        drain(drained)
        server, client, port = pair(t)
        earn(t, client, server, port)
        stays_one(t, port)
        until_reserved(t, [0, 0])
        drain(drained, False)
        until_rails(t, port, 2, "the other rail")
        until_reserved(t, [0, 1])
        client.finish()
        server.finish()
        until_reserved(t, [0, 0])


@case(500)
def where_there_is_no_room(t):
    """One end allows no rails at all."""
    a, b = hosts(t)
    config = dict(b.config)
    serve_again = {key: config[key] for key in ("rnics",)}
    b.daemon.kill()
    b.daemon.wait()
    serve(b, rails={"per-user": 0}, **serve_again)
    server, client, port = pair(t)
    earn(t, client, server, port)
    stays_one(t, port)
    t.equal(reserved(b), [0, 0], "reserved where there is nothing")
    client.finish()
    server.finish()
    until_reserved(t, [0, 0])
    t.check(a.device("rxe1")["rails_booked"] >= 0, "and here nothing stays")


def drained_under_way(t, at):
    guests = hosts(t)
    server, client, port = pair(t, env=FIRM)
    earn(t, client, server, port)
    until_rails(t, port, 2, "both rails")
    endless(client, server)
    goes_on(t, (server, client), 300_000, 60, "both to move")
    drain(guests[at])
    until_rails(t, port, 1, "one rail to be gone")
    goes_on(t, (server, client), 300_000, 60, "both to go on by the other")
    until_reserved(t, [0, 0])
    guests[0].until(lambda: all(used(guest) == {"rxe0": 1} for guest in guests), 60,
                    "one queue pair on the other device")
    drain(guests[at], False)
    until_rails(t, port, 2, "both rails again")
    goes_on(t, (server, client), 300_000, 60, "both to go on by both")
    stayed(t, port)
    wind_up(t, server, client)


@case(500)
def drained_where_it_comes_from(t):
    drained_under_way(t, 0)


@case(500)
def drained_where_it_goes_to(t):
    drained_under_way(t, 1)


@case(600)
def a_spare_takes_over(t):
    """The spare device takes over when the only other one is removed, and gives way when that one
    is back.
    """
    hosts(t, {"role": "spare"})
    server, client, port = pair(t)
    earn(t, client, server, port)
    stays_one(t, port)
    endless(client, server)
    goes_on(t, (server, client), 300_000, 60, "both to move")
    before = ends(t, port)
    remove(lab(t)[1], "rxe0")
    lab(t)[1].until(lambda: all("rxe1" in record.get("device", "") for record in ends(t, port)),
                    120,
                    "the spare to take over")
    until_promoted(t, port, 120, before)
    goes_on(t, (server, client), 300_000, 60, "both to go on by the spare")
    add(lab(t)[1], "rxe0")
    lab(t)[1].until(lambda: all("rxe0" in record.get("device", "")
                                and "rxe1" not in record["device"] for record in ends(t, port)),
                    120, "it to give way")
    goes_on(t, (server, client), 300_000, 60, "both to go on by the first")
    until_reserved(t, [0, 0])
    wind_up(t, server, client)


if __name__ == "__main__":
    sys.exit(main(links=2))
