#!/usr/bin/python3
"""Streams between two hosts: their contents, that they move by RDMA, and how they end."""
import sys
import time

from hosts import (EARN, FIRM, IOS, Peer, Wire, both_ways, connect, earn, ends, happened, hosts,
                   pair, plain, queue_pairs, registered,
                   ring_bytes, said, serve, widen)
from lib.harness import Failure
from rdmalab import case, lab, main

MIB = 1 << 20
FITS = 60_000  # bytes: a wide ring takes them though they are not read


def turns(one, other, size, times):
    """Sends a request and a response of one size, then the other way round."""
    for _ in range(times):
        one.flow("block", size, 0, size)
        other.flow("block", 0, size, size)
        one.result()
        other.result()
        one, other = other, one


def by_ring(t, port, had, least):
    """True if each end says that so much has gone by ring since had, each way."""
    return all(b - a >= least for before, now in zip(had, ring_bytes(t, port))
               for a, b in zip(before, now))


def until_by_ring(t, port, least, move):
    """Moves until so much has gone by ring each way. An end that finds a ring full for long goes on
    by TCP for a moment, and on a slow host that is most of what is larger than a ring.
    """
    had = ring_bytes(t, port)

    def moved():
        move()
        return by_ring(t, port, had, least)
    try:
        lab(t)[1].until(moved, 60, f"{least} bytes each way by ring")
    except Failure as failure:
        raise Failure(f"{failure}; {had} before: {said(ends(t, port))}") from None


@case(300)
def request_response(t):
    """From one byte to a MiB, in turns; by RDMA, and nothing for which a ring has room goes back to
    TCP.
    """
    hosts(t)
    server, client, port = pair(t, env=FIRM)
    earn(t, client, server, port)
    wire, had = Wire(t), ring_bytes(t, port)
    for size, times in ((1, 6), (64, 6), (4096, 6), (65536, 4)):
        turns(client, server, size, times)
    t.check(by_ring(t, port, had, 3 * (1 + 64 + 4096) + 2 * 65536),
            f"by ring {had} -> {said(ends(t, port))}")
    for record in ends(t, port):
        t.equal((record["reason"], record["demotions"]), ("direct", 0),
                f"what became of it: {said([record])}")
        t.check(record["link"], "it has a link")
    until_by_ring(t, port, MIB, lambda: turns(client, server, MIB, 2))
    for seen in happened(t, port):
        t.check({cause for _event, cause in seen} <= {"direct", "ring-full", "peer-fell-back"},
                f"what happened: {seen}")
    wire.check(t, MIB // 4096)


def flat_out(t, io):
    hosts(t)
    server, client, port = pair(t)
    earn(t, client, server, port)
    until_by_ring(t, port, MIB // 8, lambda: both_ways(client, server, MIB, MIB, chunk=65536,
                                                       ios=(io, io), seconds=200))
    client.finish()
    server.finish()


@case(300)
def flat_out_blocking(t):
    """Both ends send and receive as fast as they can, by blocking calls of two threads."""
    flat_out(t, "block")


@case(300)
def flat_out_poll(t):
    """The same with poll."""
    flat_out(t, "poll")


@case(300)
def flat_out_epoll(t):
    """The same with a level-triggered epoll set."""
    flat_out(t, "epoll")


@case(300)
def flat_out_edge(t):
    """The same with an edge-triggered epoll set."""
    flat_out(t, "edge")


@case(400)
def half_close(t):
    """Each end in turn shuts its direction down, while the other one goes on; each sees the end at
    the right position.
    """
    hosts(t)
    for io, first in (("block", 0), ("edge", 1)):
        peers = pair(t)
        port = peers[2]
        earn(t, peers[1], peers[0], port)
        closes, goes_on = peers[first], peers[1 - first]
        closes.flow(io, 300_000, 1 << 40, 65536, 1)
        goes_on.flow(io, 0, 1 << 40, 65536)
        result = goes_on.result()
        t.equal((result["rx_end"], result["received"] % 300_000 >= 0), ("eof", True),
                "the end of what it got")
        goes_on.flow(io, 2 * MIB, 0, 65536, 1)
        goes_on.result()
        result = closes.result()
        t.equal(result["rx_end"], "eof", "the other end of it")
        sent = [peer.progress() for peer in (closes, goes_on)]
        t.equal((sent[0][0], sent[1][0]), (sent[1][2], sent[0][2]),
                "sent by one, received by the other")
        for peer in peers[:2]:
            peer.finish()


@case(400)
def closed_with_much_under_way(t):
    """close(), return from main, _exit: all that was sent arrives, then the end."""
    hosts(t)
    for how in ("close", "end", "abandon", "_exit"):
        server, client, port = pair(t)
        earn(t, client, server, port)
        widen(client, server)
        earn(t, client, server, port)
        got = server.progress()[2]
        client.ask("{", "flow", "block", FITS, 0, 16384, 0)
        client.order(how)
        if how == "close":
            client.answer("closed")
        else:
            client.handle.wait(60, 0)
        server.flow("block", 0, 1 << 40, 65536)
        result = server.result()
        t.equal((result["rx_end"], server.progress()[2] - got), ("eof", FITS),
                f"what came, and how it ended ({how})")
        if how == "close":
            client.finish()
        server.finish()


@case(300)
def slow_reader(t):
    """A peer that does not read stops the sender; everything is there when it reads again."""
    hosts(t)
    server, client, port = pair(t)
    earn(t, client, server, port)
    base = client.progress()[0]
    client.flow("block", "endless", 0, 65536)
    client.guest.until(lambda: stands(client), 60, "the sender to stand")
    stood = client.progress()[0] - base
    before = processor_ticks(client)
    client.guest.sh("sleep 3")
    used = processor_ticks(client) - before
    t.check(used < 100, f"it stands, and takes {used / 100} s of the processor in 3 s")
    server.flow("block", 0, stood, 3000)
    server.result()
    client.kill()
    server.flow("block", 0, 1 << 40, 65536)
    t.check(server.result()["rx_end"] in ("eof", "ECONNRESET"), "the end of it")


@case(300)
def sipping_reader(t):
    """A reader that reads a little at a time, far less than a batch of credit, keeps its stream on
    the ring: the sender looks up its position in the reader's memory. On a slow host it may stand
    still for too long once, but not each time.
    """
    hosts(t)
    server, client, port = pair(t)
    size, rounds = 400_000, []

    def carried():
        record = ends(t, port)[1]
        return record.get("tx_ring_bytes", 0), record.get("tx_tcp_bytes", 0)

    until = time.monotonic() + 120
    while (len(rounds) < 4 or time.monotonic() < until) and not any(ring >= size * 5 // 6
                                                                    for ring, _tcp in rounds):
        earn(t, client, server, port)
        before = carried()
        client.flow("block", size, 0, 65536)
        server.order("flow", "block", 0, size, 4000, 0, 10_000)
        client.result(200)
        server.result(200)
        rounds.append(tuple(now - then for now, then in zip(carried(), before)))
    t.check(any(ring >= size * 5 // 6 and ring + tcp >= size for ring, tcp in rounds),
            f"by ring and by TCP, of {size}: {rounds}")
    client.finish()
    server.finish()


def processor_ticks(peer):
    """Processor time that it has had, in hundredths of a second."""
    fields = peer.guest.read(f"/proc/{peer.handle.pid}/stat").rsplit(b")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def stands(peer):
    first = peer.progress()
    for _ in range(5):
        peer.guest.sh("sleep 0.2")
        if peer.progress() != first:
            return False
    return first[1] > first[0]


def crowd(t, count, **options):
    """So many streams between two processes. options: of Guest.start()."""
    a, b = hosts(t)
    server, client = Peer(b, b.ip, **options), Peer(a, b.ip, **options)
    port = t.free_port()
    server.ask("listening", "listen", port)
    server.order("crowd", "accept", count)
    client.ask("crowd", "crowd", "connect", port, count, seconds=300)
    server.answer("crowd")
    had = [queue_pairs(guest) for guest in (a, b)]

    def talk(rounds, size):
        for peer in (server, client):
            peer.order("crowd", "talk", rounds, size)
        for peer in (server, client):
            t.equal(peer.answer("talked", 600), "talked, wrong 0", "contents")

    def promoted():
        talk(2, 8192)
        t.stats.sample()
        return sum(stream.record["tx"] == stream.record["rx"] == "ring"
                   for side in ("server", "client")
                   for stream in t.stats.of_port(port, side)) == 2 * count
    a.until(promoted, 300, f"all {count} to be promoted")
    links = {(stream.pid, stream.link) for side in ("server", "client")
             for stream in t.stats.of_port(port, side)}
    t.equal(len(links), 2, f"links of the two processes: {links}")
    for guest, before in zip((a, b), had):
        t.equal(len(queue_pairs(guest)) - len(before), 1,
                f"queue pairs that were made in {guest.name}")
    before = sum(stream.tx_ring_bytes for stream in t.stats.of_port(port, "client"))
    talk(3, 4096)
    t.stats.sample()
    t.check(sum(stream.tx_ring_bytes for stream in t.stats.of_port(port, "client")) - before >= 3 *
            4096 * count,
            "all of it went by ring")
    for peer in (client, server):
        peer.ask("closed", "crowd", "close")
    for peer in (client, server):
        peer.finish()


@case(400)
def hundred_streams(t):
    """A hundred streams between two processes share one link, with one queue pair."""
    crowd(t, 100)


@case(300)
def next_stream(t):
    """A second stream to the same process uses the existing link; one to another process gets a
    link of its own.
    """
    a, b = hosts(t)
    server, client, port = pair(t)
    earn(t, client, server, port)
    had = [queue_pairs(guest) for guest in (a, b)]
    for peer in (client, server):
        peer.ask("closed", "close")
    connect(server, client, port)
    earn(t, client, server, port)
    t.equal([queue_pairs(guest) for guest in (a, b)], had, "queue pairs")
    other = pair(t)
    earn(t, other[1], other[0], other[2])
    t.equal([len(queue_pairs(guest)) for guest in (a, b)], [len(pairs) + 1 for pairs in had],
            "queue pairs of two links")
    for peer in (client, server, *other[:2]):
        peer.finish()
    for guest, before in zip((a, b), had):
        guest.until(lambda guest=guest, before=before: len(queue_pairs(guest)) <= len(before) - 1,
                    30,
                    "the queue pairs to be gone")


@case(300)
def paired_asleep(t):
    """The accepting program makes no call while the other end asks for its stream: the stream is
    paired, and what was sent arrives.
    """
    a, b = lab(t).guests
    serve(b)
    server, client, port = pair(t)
    looked_up = []

    def told():
        both_ways(client, server, 1000, 1000, chunk=50)
        looked_up[:] = ends(t, port)
        return looked_up[0].get("reason") == "remote"
    a.until(told, 120, "the accepting end to be looked_up from elsewhere")
    slept = server.progress()
    serve(a)

    def paired():
        client.flow("block", 500, 0, 20)
        client.result()
        return ends(t, port)[1]["link"]
    a.until(paired, 120, "the stream to be paired")
    t.equal(server.progress(), slept, "what the other end did meanwhile")
    sent = client.progress()[0] - slept[2]
    server.flow("block", 0, sent, 5000)
    server.result()
    earn(t, client, server, port)
    for peer in (client, server):
        peer.finish()


@case(300)
def second_stream(t):
    """Beside a first stream, a second one costs its ring and the window's, and no queue pair."""
    a, b = hosts(t)
    server, client, port = pair(t)
    earn(t, client, server, port)
    had = [registered(guest) for guest in (a, b)]
    server.order("crowd", "accept", 1)
    client.ask("crowd", "crowd", "connect", port, 1)
    server.answer("crowd")

    def promoted():
        for peer in (server, client):
            peer.order("crowd", "talk", 20, 4096)
        for peer in (server, client):
            peer.answer("talked, wrong 0", 300)
        t.stats.sample()
        return all(sum(stream.record["tx"] == stream.record["rx"] == "ring"
                       for stream in t.stats.of_port(port, side)) == 2
                   for side in ("server", "client"))
    a.until(promoted, 120, "the second one to be promoted")
    for guest, (pairs, regions, _) in zip((a, b), had):
        t.check(pairs > 0, f"{guest.name} has no queue pair with one stream")
        t.equal(registered(guest)[:2], (pairs, regions + 2),
                f"queue pairs and regions of {guest.name} with two")
    for peer in (client, server):
        peer.ask("closed", "crowd", "close")
        peer.finish()


@case(400)
def wide_and_narrow(t):
    """A ring through which much flows becomes wide, at both ends; at rest what is registered is as
    little as before. And again.
    """
    guests = hosts(t)
    server, client, port = pair(t)
    earn(t, client, server, port)

    def bytes_of():
        return [registered(guest)[2] for guest in guests]
    time.sleep(12)  # what its first bytes have made wide is narrow again
    had = bytes_of()
    t.check(max(had) < MIB, f"bytes registered for one stream: {had}")
    for _ in range(2):
        def flows():
            both_ways(client, server, 4 * MIB, 4 * MIB, chunk=65536)
            return all(now - before >= 2 * MIB for now, before in zip(bytes_of(), had))
        guests[0].until(flows, 100, "its rings to become wide")
        guests[0].until(lambda: bytes_of() == had, 60,
                        f"{had} bytes to be registered, as before, of {bytes_of()}")
        turns(client, server, 100, 20)
    for record in ends(t, port):
        t.equal((record["tx"], record["rx"]), ("ring", "ring"), said([record]))
    client.finish()
    server.finish()


@case(300)
def ipv6(t):
    """The same over IPv6; and a link that the other guest's process initiates."""
    hosts(t)
    for way, at in (("ip6", (1, 0)), ("ip", (0, 1))):
        server, client, port = pair(t, way, at)
        wire = Wire(t)
        earn(t, client, server, port)
        both_ways(client, server, EARN, EARN)
        t.check(all(sum(moved) >= EARN // 4 for moved in ring_bytes(t, port)),
                f"by ring: {said(ends(t, port))}")
        wire.check(t, 50)
        client.finish()
        server.finish()


def stays_plain(t, reasons, **options):
    server, client, port = pair(t, **options)
    wire = Wire(t)
    for io in IOS[:2]:
        both_ways(client, server, EARN, EARN, chunk=8000, ios=(io, io))
    plain(t, port, *reasons)
    t.equal(wire.sent(), [0, 0], "RDMA packets")
    client.finish()
    server.finish()


@case(400)
def one_side_only(t):
    """Plain TCP where only one of the two programs has librsock."""
    hosts(t)
    for preload in ((True, False), (False, True)):
        stays_plain(t, ("no-peer", "remote", "mapped", "link-error"), preload=preload)


@case(400)
def a_refused_link(t):
    """The mapping leads to a port where nobody accepts links: rsockd hears of it, and asks the
    other host no more for a while, however often the stream asks.
    """
    a, b = lab(t).guests
    serve(a, client={"refused-time": "10min"})
    serve(b)
    server, client, port = pair(t, preload=(False, True))

    def spared():
        both_ways(client, server, 20_000, 20_000, chunk=2000)
        return a.figure("local_asks_spared_total") >= 2
    a.until(spared, 120, "a remembered refusal to be the answer")
    t.equal((a.figure("local_link_refusals_total"), b.counts()["requests"]), (1, 1),
            "links refused, PMReq")
    plain(t, port, "link-error")
    client.finish()
    server.finish()


@case(400)
def no_rsockd(t):
    """Plain TCP where one host, or both, have no rsockd."""
    a, b = lab(t).guests
    stays_plain(t, ("no-rsockd",))
    daemon = serve(a)
    stays_plain(t, ("no-rsockd", "no-peer", "remote", "not-earned", "no-pmsp"))
    daemon.stop()
    serve(b)
    stays_plain(t, ("no-rsockd", "no-peer", "remote", "not-earned"))


@case(400)
def denied(t):
    """Plain TCP where a policy of either side denies it; the reason says which side. The accepting
    end is not told of the connecting side's policy, and may have given up its search by then.
    """
    a, b = lab(t).guests
    no = [{"name": "others", "when": {"peers": ["192.0.2.0/24"]}}]
    for denies in (a, b):
        daemons = [serve(guest, **({"rules": no} if guest is denies else {})) for guest in (a, b)]
        unheard = ("no-peer",) if denies is a else ()
        stays_plain(t, ("policy", "peer-policy", "remote", *unheard))
        for daemon in daemons:
            daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
