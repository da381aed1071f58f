#!/usr/bin/python3
"""One stream over the rails of two RDMA devices: faster than over one; one of them fails, and the
stream stays on the ring.
"""
import re
import sys
import time

from hosts import FIRM, Peer, both_ways, connect, earn, ends, events, pair, said, serve, wedged
from rdma_devices import add, remove, used
from rdma_faults import endless, goes_on, until_promoted, wind_up
from rdmalab import case, lab, main

ONE = {"RSOCK_RDMA_RAILS": "1"}
# at that rate a larger ring stays full for so long that its stream falls back to TCP
SMALL = {**FIRM, "RSOCK_RDMA_RING_KB": "32"}
# Of the transaction tags: each kind, the widest and narrower ones, with and without +stop. Not the
# narrowest: where an index distinguishes two, each send() waits for the credit of the one before
# it, on a busy host for so long that the stream falls back to TCP.
FORMS = ("wrapping:13+keep", "relative:12", "absolute:13+stop", "wrapping:13+stop",
         "relative:4/4+stop", "absolute:4", "wrapping:4", "relative:5", "wrapping:5+stop",
         "relative:12/3+stop")
# limit of each device, where they are limited: less than what a guest's processor can send
MBIT = 8
WATCH = r"""
import struct, sys, time
last, since, longest = -1, time.monotonic(), 0.0
until = since + float(sys.argv[2])
while time.monotonic() < until:
    with open(sys.argv[1], "rb") as file:
        now = struct.unpack("QQQ", file.read(24))[2]
    if now != last:
        longest, last, since = max(longest, time.monotonic() - since), now, time.monotonic()
    time.sleep(0.004)
print(max(longest, time.monotonic() - since))
"""


def two_rails(t, env):
    """Both guests with rsockd, and a stream that has a rail by each device; nothing is under way
    yet.
    """
    for guest in lab(t).guests:
        serve(guest)
    server, client, port = pair(t, env=env)
    earn(t, client, server, port)
    lab(t)[1].until(lambda: all(rails_of(record) == 2 for record in ends(t, port)), 60,
                    "both rails to be there")
    return server, client, port


def rails_of(record):
    return len(re.findall(r"rxe\d/1", record.get("device", "")))


def packets(t):
    """[guest][device] -> RDMA packets sent."""
    return [[guest.hw_counters(rnic)["sent_pkts"] for rnic in ("rxe0", "rxe1")]
            for guest in lab(t).guests]


def stayed(t, port):
    """Checks that the stream never fell back to its TCP socket because of a rail."""
    for record in ends(t, port):
        t.check(all(cause != "link-broken" for _event, cause in events(record)),
                f"it left the ring: {said([record])}")


def limit(t, mbit):
    for guest in lab(t).guests:
        for netdev in ("eth0", "eth1"):
            guest.sh(f"tc qdisc del dev {netdev} root 2>/dev/null || true")
            if mbit:
                guest.sh(f"tc qdisc add dev {netdev} root tbf rate {mbit}mbit burst 32k limit 400k")


def rate(t, server, seconds=12):
    """Bytes a second that arrive at the server, of a stream whose other end sends all the time."""
    had, begun = server.progress()[2], time.monotonic()
    lab(t)[1].until(lambda: time.monotonic() - begun > seconds, seconds + 30, "time to pass")
    return (server.progress()[2] - had) / (time.monotonic() - begun)


@case(600)
def faster_by_two(t):
    """Each device limited to the same rate: over both a stream moves at least 1.6 times as much as
    over one.
    """
    for guest in lab(t).guests:
        serve(guest)
    # before anything is sent by them: a queue that is removed under a sender ends rxe's queue pair
    limit(t, MBIT)
    rates = []
    for env, wanted in (({**ONE, **SMALL}, 1), (SMALL, 2)):
        server, client, port = pair(t, env=env)
        earn(t, client, server, port)
        lab(t)[1].until(lambda wanted=wanted, port=port: all(rails_of(record) == wanted
                                                             for record in ends(t, port)), 60,
                        f"{wanted} rails")
        before = packets(t)
        client.flow("block", 1 << 40, 0, 65536)
        server.flow("block", 0, 1 << 40, 65536)
        goes_on(t, (server,), 2_000_000, 120, "it to move")
        rates.append(rate(t, server))
        t.check(sum(record["tx_ring_bytes"] for record in ends(t, port)) > 5_000_000,
                said(ends(t, port)))
        sent = [after - had for after, had in zip(packets(t)[0], before[0])]
        t.check(min(sent) > sum(sent) // 4 or wanted == 1, f"packets by device: {sent}")
        # of the end that sends
        carried = max((record["tx_rail_bytes"] for record in ends(t, port)), key=sum)
        t.check(sum(carried) > 5_000_000 and sum(carried[wanted:]) == 0,
                f"bytes by rail: {carried}")
        t.check(wanted == 1 or min(carried[:2]) > sum(carried) // 4, f"bytes by rail: {carried}")
        shown = lab(t)[1].run([lab(t).tool, "stat", "--all"], expect=0).out
        t.check((" by rails " in shown) == (wanted == 2), f"bytes by rail in the table:\n{shown}")
        stayed(t, port)
        client.kill()
        server.kill()
    limit(t, 0)
    print(f"    by one {rates[0] / 1e6:.2f} MB/s, by two {rates[1] / 1e6:.2f}: "
          f"{rates[1] / rates[0]:.2f}")
    t.check(rates[1] >= 1.6 * rates[0], f"bytes a second by one and by two: {rates}")


def order_of(records):
    return [{key: record[key] for key in ("reordered", "overtook", "gap", "gap_lowest")}
            for record in records]


@case(900)
def every_form(t):
    """Every form of the index, another one each way: small messages, and large ones whose later
    packets follow the credit for the first. One device is half as fast, so slots overtake, and the
    receivers see it while both rails work.
    """
    for guest in lab(t).guests:
        serve(guest)
    limit(t, MBIT)
    for guest in lab(t).guests:
        guest.sh(f"tc qdisc change dev eth1 root tbf rate {MBIT // 2}mbit burst 32k limit 400k")
    overtook = 0
    for there, here in zip(FORMS[::2], FORMS[1::2]):
        guests, port = lab(t).guests, t.free_port()
        server, client = (Peer(guest, guests[1].ip, env={**SMALL, "RSOCK_RDMA_ORDER": form})
                          for guest, form in ((guests[1], there), (guests[0], here)))
        server.ask("listening", "listen", port)
        connect(server, client, port)
        earn(t, client, server, port)
        guests[0].until(lambda port=port: all(rails_of(record) == 2 for record in ends(t, port)),
                        60, "both rails to be there")
        both_ways(client, server, 300_000, 300_000, chunk=2000)
        both_ways(client, server, 600_000, 600_000, chunk=1 << 16)
        found = order_of(ends(t, port))
        print(f"    {there}, {here}: {found}")
        t.check(all(end["reordered"] for end in found),
                f"{there}, {here}: none seen ahead: {found}")
        t.check(not any(end["gap"] for end in found), f"{there}, {here}: missing: {found}")
        overtook += sum(end["overtook"] for end in found)
        stayed(t, port)
        for peer in (client, server):
            peer.finish()
    limit(t, 0)
    t.check(overtook, "no transaction was complete before one with a lower number")


def two_again(t, port):
    """Waits for both rails. False: rxe cannot connect any more."""
    guests = lab(t).guests
    guests[0].until(lambda: all(rails_of(record) == 2 for record in ends(t, port))
                    or any(map(wedged, guests)), 120,
                    "both rails to be there again")
    if not any(map(wedged, guests)):
        return True
    print(f"    and no rail came back: rxe cannot connect any more, "
          f"{[wedged(guest) for guest in guests]}")
    return False


def one_goes(t, breaking, recovering, env=None, by_tcp=True):
    """Both ends send at full speed over two rails; one rail fails, and comes back. No end leaves
    the ring; the longest time without a byte is printed.
    """
    server, client, port = two_rails(t, env or {})
    endless(client, server)
    goes_on(t, (server, client), 300_000, 60, "both to move")
    watching = [peer.guest.start(["python3", "-c", WATCH, peer.progress_file, "12"], stdout="pipe")
                for peer in (server, client)]
    breaking()
    if by_tcp:
        lab(t)[1].until(lambda: all(rails_of(record) == 1 for record in ends(t, port)), 60,
                        "one rail to be gone")
    goes_on(t, (server, client), 300_000, 60, "both to go on by the other")
    stands = [float(handle.readline(60)) for handle in watching]
    print(f"    nothing came for {max(stands):.2f} s at most")
    recovering()
    if not two_again(t, port):
        goes_on(t, (server, client), 300_000, 60, "both to go on")
        stayed(t, port)
        wind_up(t, server, client)
        return
    before = packets(t)
    goes_on(t, (server, client), 300_000, 60, "both to go on")
    lab(t)[1].until(lambda: all(now > had + 20 for guest, earlier in zip(packets(t), before)
                                for now, had in zip(guest, earlier)), 90,
                    "both ends to send by both devices again")
    stayed(t, port)
    wind_up(t, server, client)


@case(500)
def second_device_removed(t):
    one_goes(t, lambda: remove(lab(t)[2], "rxe1"), lambda: add(lab(t)[2], "rxe1"))


@case(500)
def first_device_removed(t):
    """The device by which the link was made is removed; its control words go by the other one from
    then on.
    """
    one_goes(t, lambda: remove(lab(t)[1], "rxe0"), lambda: add(lab(t)[1], "rxe0"))


def deaf(t, whether, link):
    for guest in lab(t).guests:
        guest.deaf(whether, "roce", f"eth{link}")


@case(500)
def second_lost(t):
    """RDMA packets by the second device are lost; only a timeout shows it."""
    one_goes(t, lambda: deaf(t, True, 1), lambda: deaf(t, False, 1))


@case(500)
def first_lost(t):
    one_goes(t, lambda: deaf(t, True, 0), lambda: deaf(t, False, 0))


CLOSED = re.compile(r"rail (\d): rails are closed there up to lives (\d+) (\d+) (\d+) (\d+) of "
                    r"epoch")


@case(300)
def closed_is_read(t):
    """While no program sends, each end reads, by each rail, which rails the other end has closed,
    and sees the one that is closed now.
    """
    def read(guest, rail):
        """Incarnations of rail 1 that its reads by that rail found closed."""
        found = CLOSED.findall(guest.sh("cat /run/case/librsock.log 2>/dev/null || true"))
        return [int(second) for by, _first, second, *_rest in found if int(by) == rail]

    server, client, port = two_rails(t, {"RSOCK_LOG": "debug"})
    guests = lab(t).guests
    guests[0].until(lambda: all(read(guest, rail) for guest in guests for rail in (0, 1)), 30,
                    "both to read by both rails")
    before = [max(read(guest, 0)) for guest in guests]
    remove(guests[1], "rxe1")
    guests[0].until(lambda: all(max(read(guest, 0)) > had for guest, had in zip(guests, before)),
                    30, "both to read that it is closed")
    both_ways(client, server, 200_000, 200_000, chunk=2000)
    stayed(t, port)
    add(guests[1], "rxe1")
    client.finish()
    server.finish()


@case(500)
def second_cable(t):
    def repair():
        lab(t)[2].sh("sleep 2")
        lab(t)[2].cable(True, 1)
    one_goes(t, lambda: lab(t)[2].cable(False, 1), repair)


@case(500)
def first_cable(t):
    """The whole network by which the link was made fails, with the control connection and the
    stream's TCP socket. Messages in turns go on by the other device, and none waits for TCP; nor
    does a sender to a slow reader fall back to TCP.
    """
    server, client, port = two_rails(t, {})
    both_ways(client, server, 200_000, 200_000, chunk=2000)
    earn(t, client, server, port)  # on a busy host it may have fallen back from a full ring
    by_tcp = [(record["tx_tcp_bytes"], record["rx_tcp_bytes"]) for record in ends(t, port)]
    lab(t)[2].cable(False, 0)
    slowest = 0.0
    for _ in range(40):
        begun = time.monotonic()
        both_ways(client, server, 20_000, 20_000, chunk=2000)
        slowest = max(slowest, time.monotonic() - begun)
    print(f"    20 kB each way took {slowest:.2f} s at most")
    lab(t)[1].until(lambda: all(rails_of(record) == 1 for record in ends(t, port)), 60,
                    "one rail to be gone")
    both_ways(client, server, 200_000, 200_000, chunk=2000)
    client.flow("block", 300_000, 0)
    # sleeps after each read, so the ring stays full
    server.order("flow", "block", 0, 300_000, 65536, 0, 200_000)
    client.result()
    server.result()
    t.equal([(record["tx_tcp_bytes"], record["rx_tcp_bytes"]) for record in ends(t, port)], by_tcp,
            "bytes by TCP")
    stayed(t, port)
    lab(t)[2].cable(True, 0)
    two_again(t, port)
    both_ways(client, server, 200_000, 200_000, chunk=2000)
    for peer in (client, server):
        peer.finish()


@case(500)
def both_lost(t):
    """Both rails fail: the stream goes on by its TCP socket, and returns to both rails."""
    server, client, port = two_rails(t, {})
    endless(client, server)
    goes_on(t, (server, client), 300_000, 60, "both to move")
    for link in (1, 0):
        deaf(t, True, link)
    guest = lab(t)[1]
    guest.until(lambda: all("link-broken" in said([record]) for record in ends(t, port)), 60,
                "both ends to see the link broken")
    goes_on(t, (server, client), 200_000, 60, "both to go on by TCP")
    before = ends(t, port)
    for link in (1, 0):
        deaf(t, False, link)
    if two_again(t, port) or {"rxe0", "rxe1"} - set().union(*map(wedged, lab(t).guests)):
        until_promoted(t, port, 120, before)
    goes_on(t, (server, client), 200_000, 60, "both to go on")
    wind_up(t, server, client)


@case(300)
def one_if_so_configured(t):
    """RSOCK_RDMA_RAILS=1 at either end: the other device is not used."""
    for guest in lab(t).guests:
        serve(guest)
    address = lab(t)[2].ip
    for requests in ((ONE, None), (None, ONE)):
        server, client = Peer(lab(t)[2], address, env=requests[0]), Peer(lab(t)[1], address,
                                                                       env=requests[1])
        port = t.free_port()
        server.ask("listening", "listen", port)
        connect(server, client, port)
        earn(t, client, server, port)
        both_ways(client, server, 200_000, 200_000)
        t.check(all(rails_of(record) == 1 for record in ends(t, port)), said(ends(t, port)))
        for guest in lab(t).guests:
            t.equal(used(guest), {"rxe0": 1}, f"queue pairs of {guest.name}")
        for peer in (client, server):
            peer.finish()


if __name__ == "__main__":
    sys.exit(main(links=2))
