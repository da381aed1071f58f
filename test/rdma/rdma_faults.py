#!/usr/bin/python3
"""Faults between two hosts: of packets, links, processes, memory, rsockd. Contents are right all
the same.
"""
import json
import random
import re
import sys
from pathlib import Path

from hosts import (EARN, FIRM, Peer, Wire, both_ways, configuration, connect, earn, ends, happened,
                   hosts, on_ring, pair, ring_bytes,
                   said, serve, wedged, widen)
from lib.harness import Failure
from rdmalab import case, lab, main

MIB = 1 << 20
USER = 1000


# ---- packets -----------------------------------------------------------------------------------
def under(t, spec, only, counters=()):
    """Both ends send at full speed, while netem applies spec to what both hosts send. counters:
    names, of which at least one must have grown at one of the hosts.
    """
    guests = hosts(t)
    server, client, port = pair(t)
    earn(t, client, server, port)
    before, wire = [guest.hw_counters() for guest in guests], Wire(t)
    had = ring_bytes(t, port)
    for guest in guests:
        guest.netem(spec, only=only)
    for io in ("block", "edge"):
        both_ways(client, server, MIB // 2, MIB // 2, ios=(io, io), seconds=300)
    for guest in guests:
        guest.netem(None)
    grown = {name: sum(guest.hw_counters()[name] - had[name] for guest, had in zip(guests, before))
             for name in counters}
    t.check(not counters or any(grown.values()), f"nobody noticed '{spec}': {grown}")
    moved = [now[0] - then[0] for now, then in zip(ring_bytes(t, port), had)]
    t.check(all(moved), f"by ring: {said(ends(t, port))}")
    # the server is in the second one
    for guest, sent, sent_bytes in zip(guests, wire.sent(), reversed(moved)):
        t.check(sent >= sent_bytes // 4096,
                f"{guest.name} sent {sent} RDMA packets, and {sent_bytes} bytes by ring")
    earn(t, client, server, port, 120)  # still on the ring, or on it again
    client.finish()
    server.finish()


@case(500)
def loss_of_roce(t):
    """1 %: RDMA retransmits, and no stream is demoted for good."""
    under(t, "loss 1%", "roce",
          ("out_of_seq_request", "rcvd_seq_err", "completer_retry_err", "duplicate_request"))


@case(900, long=True)
def much_loss_of_roce(t):
    under(t, "loss 10%", "roce",
          ("out_of_seq_request", "rcvd_seq_err", "completer_retry_err", "duplicate_request"))


@case(900, long=True)
def loss_of_all(t):
    under(t, "loss 1%", None)


@case(1200, long=True)
def much_loss_of_all(t):
    under(t, "loss 10%", None)


@case(500, long=True)
def delay(t):
    under(t, "delay 10ms 5ms limit 100000", None)


@case(500, long=True)
def duplicates(t):
    under(t, "duplicate 10%", None)


@case(500)
def reordered(t):
    under(t, "delay 2ms reorder 25% 50% limit 100000", "roce",
          ("out_of_seq_request", "duplicate_request", "rcvd_seq_err"))


# ---- links -------------------------------------------------------------------------------------
def endless(one, other, io="block", chunk=16384):
    for peer in (one, other):
        peer.flow(io, "endless", 1 << 40, chunk)


def moved(peers):
    return [peer.progress()[2] for peer in peers]


def goes_on(t, peers, bytes_more, seconds, what):
    """Waits until each end has received so many more bytes, by either path."""
    had = moved(peers)
    try:
        peers[0].guest.until(lambda: all(now - then >= bytes_more
                                         for now, then in zip(moved(peers), had)), seconds, what)
    except Failure as failure:
        raise Failure(f"{failure}; received {had} -> {moved(peers)}") from None


def until_promoted(t, port, seconds, before):
    """Waits until both ends move bytes by ring again, both ways; before: their earlier records. At
    full speed on a slow host a ring is often full, and a stream often goes back to TCP for a
    moment.
    """
    def there():
        return all(now[name] > then[name] for now, then in zip(ends(t, port), before)
                   for name in ("promotions", "tx_ring_bytes", "rx_ring_bytes"))
    try:
        lab(t)[1].until(there, seconds, "both ends to be promoted again")
    except Failure as failure:
        raise Failure(f"{failure}: {said(ends(t, port))}") from None


def until_broken(t, port, seconds, enough=all):
    """Waits until both ends send by TCP because the link is broken; bytes that came by ring may
    still be unread. enough=any: one end does.
    """
    def there():
        return enough(record["tx"] == "tcp" and "link-broken" in said([record])
                      for record in ends(t, port))
    try:
        lab(t)[1].until(there, seconds,
                        f"{'both ends' if enough == all else 'an end'} to see the link broken")
    except Failure as failure:
        raise Failure(f"{failure}: {said(ends(t, port))}") from None


def wind_up(t, server, client):
    """Kills the client; the server, which still sends, sees an end of the stream, and all it had
    received was right.
    """
    client.kill()
    result = server.result()
    t.check(result["rx_end"] in ("eof", "ECONNRESET", "EPIPE"), f"how it ended: {result}")
    t.check(result["received"] <= client.progress()[1],
            f"more received than sent: {result}, {client.progress()}")
    server.finish()


def until_promoted_or_wedged(t, port, seconds, before):
    try:
        until_promoted(t, port, seconds, before)
    except Failure:
        broken = [wedged(guest) for guest in lab(t).guests]
        if not any(broken):
            raise
        print(f"    and nobody was promoted again: rxe cannot connect any more, {broken}")


def breaks(t, breaking, recovering, by_tcp=True, again=True, enough=all):
    """Both ends send at full speed; the rail breaks and comes back. by_tcp: TCP works while it is
    broken; again: streams are promoted again, where rxe can still connect; enough (all or any):
    which ends must have seen the break before it is repaired.
    """
    hosts(t)
    server, client, port = pair(t, env={"RSOCK_LOG": "debug"})  # logs why a rail fails
    earn(t, client, server, port)
    endless(client, server)
    goes_on(t, (server, client), 200_000, 60, "both to move")
    breaking()
    until_broken(t, port, 60, enough)
    before = ends(t, port)
    if by_tcp:
        goes_on(t, (server, client), 200_000, 60, "both to go on by TCP")
    recovering()
    goes_on(t, (server, client), 200_000, 120, "both to go on")
    if again:
        until_promoted_or_wedged(t, port, 120, before)
    goes_on(t, (server, client), 200_000, 60, "both to go on then")
    wind_up(t, server, client)


def deaf(t, whether, only=None):
    """Sets whether both guests drop what comes in."""
    for guest in lab(t).guests:
        guest.deaf(whether, only)


@case(500)
def roce_lost_for_a_while(t):
    """RDMA packets are lost for seconds while TCP works: streams go back to TCP, and are promoted
    again.
    """
    breaks(t, lambda: deaf(t, True, "roce"), lambda: deaf(t, False))


def stopped_with_a_ring_full(t, server, client, port):
    """Stops the client when its ring has taken 60,000 bytes, of which none arrives, since RDMA
    packets are lost, and which it cannot repeat by TCP then. Returns how many bytes the server had
    received before. On a busy machine the rail may break too early; then it is tried again.
    """
    for _ in range(5):
        earn(t, client, server, port)
        widen(client, server)
        earn(t, client, server, port)
        got, had = server.progress()[2], ends(t, port)[1]["tx_ring_bytes"]
        deaf(t, True, "roce")
        client.ask("{", "flow", "block", 60_000, 0, 16384, 0)
        client.handle.kill(19)
        record = ends(t, port)[1]
        if record["tx"] == "ring" and record["tx_ring_bytes"] - had == 60_000:
            return got
        client.handle.kill(18)
        deaf(t, False)
        server.flow("block", 0, 60_000, 65536)
        server.result()
    raise Failure(f"the rail always broke before: {said(ends(t, port))}")


@case(400)
def shut_while_roce_is_lost(t):
    """Sends bytes, then calls shutdown(SHUT_WR), while RDMA packets are lost: the bytes come by
    TCP, then the end.
    """
    hosts(t)
    server, client, port = pair(t)
    earn(t, client, server, port)
    widen(client, server)
    earn(t, client, server, port)
    got = server.progress()[2]
    deaf(t, True, "roce")
    client.ask("{", "flow", "block", 60_000, 0, 16384, 1)  # a ring takes them
    server.flow("block", 0, 1 << 40, 65536)
    result = server.result()
    t.equal((result["rx_end"], server.progress()[2] - got), ("eof", 60_000),
            "what came, and how it ended")
    deaf(t, False)
    client.finish()
    server.finish()


@case(400)
def killed_while_roce_is_lost(t):
    """The sender is killed with bytes in its ring that came neither by RDMA nor yet by TCP: the
    reader gets a reset, not an orderly end.
    """
    hosts(t)
    server, client, port = pair(t)
    got = stopped_with_a_ring_full(t, server, client, port)
    until_broken(t, port, 60, any)
    server.flow("block", 0, 1 << 40, 65536)
    client.kill()
    result = server.result()
    t.equal((result["rx_end"], server.progress()[2] - got), ("ECONNRESET", 0),
            "how it ended, and what came")
    deaf(t, False)
    server.finish()


@case(400)
def closed_while_roce_is_lost(t):
    """The reader, which has sent nothing by ring, closes while RDMA packets are lost, so its
    control word is lost. The sender gets the errors that TCP gives, while the reader's process
    lives on.
    """
    hosts(t)
    server, client, port = pair(t)

    def sends_by_ring():
        both_ways(client, server, 20_000, 0, chunk=2000)
        return ends(t, port)[1]["tx"] == "ring"
    lab(t)[1].until(sends_by_ring, 60, "the client to send by ring")
    widen(client, server, back=0)
    lab(t)[1].until(sends_by_ring, 60, "the client to send by ring again")
    t.equal(ends(t, port)[0]["tx"], "tcp", "the server sends by")
    deaf(t, True, "roce")
    client.ask("{", "flow", "block", 60_000, 0, 16384, 0)
    server.ask("closed", "close")
    client.flow("block", 100 << 20, 0, 16384)
    t.check(client.result()["tx_end"] in ("EPIPE", "ECONNRESET"), "how the sending ended")
    deaf(t, False)
    client.finish()
    server.finish()


@case(500)
def all_lost_for_a_while(t):
    """All packets are lost for five seconds."""
    def repair():
        lab(t)[1].sh("sleep 5")
        deaf(t, False)
    breaks(t, lambda: deaf(t, True), repair, by_tcp=False)


@case(500, long=True)
def roce_lost_one_way(t):
    """What one of the guests sends by RDMA is lost."""
    breaks(t, lambda: lab(t)[2].deaf(True, "roce"), lambda: lab(t)[2].deaf(False))


@case(500)
def link_down(t):
    """The server's link is set down, and up after a while. rdma_cm sends meanwhile, and rxe's GSI
    queue pair does not survive that. The client's packets may lie in its network card, since the
    other guest's card takes none: rxe then waits for them to be sent, not for an acknowledgement,
    and its queue pair is silent until the link is up.
    """
    def repair():
        lab(t)[2].sh("sleep 3")
        lab(t)[2].link(True)
    breaks(t, lambda: lab(t)[2].link(False), repair, by_tcp=False, again=False, enough=any)


@case(500)
def cable(t):
    """The carrier of the server's link goes, and comes back."""
    def repair():
        lab(t)[2].sh("sleep 3")
        lab(t)[2].cable(True)
    breaks(t, lambda: lab(t)[2].cable(False), repair, by_tcp=False)


@case(500)
def idle_while_broken(t):
    """No program sends while the rail is broken and made anew: what follows is right, and no
    earlier byte was lost.
    """
    hosts(t)
    server, client, port = pair(t)
    earn(t, client, server, port)
    widen(client, server)
    earn(t, client, server, port)
    client.ask("{", "flow", "block", 50_000, 0, 5000, 0)  # unread
    deaf(t, True, "roce")
    until_broken(t, port, 60)
    for seen in happened(t, port):
        t.check({("demoted-tx", "link-broken"), ("resumed", "link-broken")} <= seen,
                f"what happened: {seen}")
    server.flow("block", 0, 50_000, 5000)
    server.result()
    deaf(t, False)
    earn(t, client, server, port, 120)
    client.finish()
    server.finish()


# ---- processes ---------------------------------------------------------------------------------
def killed(t, rounds):
    """One end after the other is killed under load; another link of the process that survives is
    not disturbed.
    """
    a, b = hosts(t)
    firm = pair(t, env=FIRM)
    earn(t, firm[1], firm[0], firm[2])
    for number in range(rounds):
        io = ("block", "edge", "poll", "epoll")[number % 4]
        server, client, port = pair(t, at=((1, 0), (0, 1))[number % 2])
        earn(t, client, server, port)
        endless(client, server, io)
        goes_on(t, (server, client), random.randrange(20_000, 400_000), 120, "both to move")
        dies, lives = (client, server) if number % 3 else (server, client)
        dies.kill()
        result = lives.result(120)
        t.check(result["rx_end"] in ("eof", "ECONNRESET", "EPIPE"), f"how it ended: {result}")
        t.check(result["received"] <= dies.progress()[1],
                f"received more than was sent: {result}, {dies.progress()}")
        lives.finish()
        both_ways(firm[1], firm[0], 10_000, 10_000)
    for record in ends(t, firm[2]):
        t.equal((record["tx"], record["rx"], record["demotions"]), ("ring", "ring", 0),
                f"the other link: {said([record])}")
    for peer in (firm[1], firm[0]):
        peer.finish()


@case(700)
def killed_under_load(t):
    killed(t, 5)


@case(6000, long=True)
def killed_often(t):
    killed(t, 50)


OUTSIDER = """
import random, socket, struct, sys
address, port, magic = sys.argv[1], int(sys.argv[2]), int(sys.argv[3], 16)
dice = random.Random(7)
said = [struct.pack("<QI", magic, kind).ljust(320, b"\\0") for kind in range(13)]
said += [struct.pack("<QI", magic, kind) + dice.randbytes(308) for kind in range(13)
         for _ in range(4)]
said += [dice.randbytes(dice.randrange(1, 2000)) for _ in range(20)]
said += [b"", said[3][:100], said[3] * 3]
for words in said:
    with socket.create_connection((address, port), 20) as sock:
        try:
            sock.sendall(words)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(4096):
                pass
        except OSError:
            pass
silent = [socket.create_connection((address, port), 20) for _ in range(100)]
"""


def magic():
    """The bytes with which each message of a control connection begins
    (../../stream/remote/remote_msg.h): letters, and two digits, which are the version.
    """
    root = Path(__file__).resolve().parents[2]
    header = (root / "stream/remote/remote_msg.h").read_text(encoding="utf-8")
    versions = (root / "include/rsock/version.h").read_text(encoding="utf-8")
    letters = re.search(r"RSK_REMOTE_LETTERS 0x([0-9a-f]{12})", header)[1]
    version = int(re.search(r"RSK_REMOTE_VERSION \((\d+) ", versions)[1])
    return f"0x{ord('0') + version % 10:x}{ord('0') + version // 10:x}{letters}"


@case(400)
def outsiders(t):
    """Any host that can reach the port at which links are accepted may send anything to it: no
    stream is disturbed.
    """
    a, b = hosts(t)
    # logs the pending peers, too
    server, client, port = pair(t, env={"RSOCK_LOG": "debug", **FIRM})
    earn(t, client, server, port)
    ports = {int(line.split()[3].rsplit(":", 1)[1]) for line in b.sh("ss -ltnpH").splitlines()
             if f"pid={server.handle.pid}," in line}
    ports.discard(port)
    t.check(ports, "the server accepts no links")
    for at in ports:
        a.run(["/usr/bin/python3", "-B", "-c", OUTSIDER, b.ip, at, magic()], expect=0)
    both_ways(client, server, 50_000, 50_000)
    for record in ends(t, port):
        t.equal((record["tx"], record["rx"]), ("ring", "ring"), f"carried by: {said([record])}")
    client.finish()
    server.finish()


@case(400)
def stopped(t):
    """A process that is stopped for long (SIGSTOP) is not taken for dead; it goes on when it is
    continued.
    """
    hosts(t)
    server, client, port = pair(t)
    earn(t, client, server, port)
    endless(client, server)
    goes_on(t, (server, client), 100_000, 60, "both to move")
    server.handle.kill(19)
    lab(t)[1].sh("sleep 8")
    server.handle.kill(18)
    goes_on(t, (server, client), 400_000, 120, "both to go on")
    wind_up(t, server, client)


# ---- memory ------------------------------------------------------------------------------------
def registrations(guest):
    """How the requests for rings of a guest's processes ended, together."""
    of_all = [process["registrations"] for process in guest.stat()["processes"]]
    return {cause: sum(one[cause] for one in of_all) for cause in of_all[0]}


def little_memory(t, before_end=lambda guests: None, **options):
    guests = hosts(t)
    server, client, port = pair(t, **options)
    wire = Wire(t)
    earn(t, client, server, port)
    both_ways(client, server, MIB, MIB, ios=("block", "edge"), seconds=200)
    # Much of it may go by TCP meanwhile: what cannot be registered goes through 16 KiB for all
    # streams.
    t.check(all(min(moved) >= EARN // 4 for moved in ring_bytes(t, port)),
            f"by ring: {said(ends(t, port))}")
    wire.check(t, 100)
    before_end(guests)
    client.finish()
    server.finish()


@case(400)
def little_memory_to_lock(t):
    """A user who may lock 64 KiB: no ring can be registered, and the indirect buffer carries
    everything.
    """
    little_memory(t, user=USER, limits={"MEMLOCK": 65536})


@case(400)
def ordinary_user(t):
    """A user with Debian's limit of 8 MiB."""
    little_memory(t, user=USER, limits={"MEMLOCK": 8 << 20})


@case(400)
def registration_fails(t):
    """No ring can ever be registered."""
    def never_registered(guests):
        for guest in guests:
            ended = registrations(guest)
            t.check(ended["invalid"] >= 1, ended)
            t.equal((ended["valid"], ended["late_valid"]), (0, 0), ended)
    little_memory(t, before_end=never_registered, env={"RSK_VERBS_FAIL_REG": 100})


@case(600)
def registration_fails_half_the_time(t):
    """Some rings are registered at once, some later."""
    a, b = hosts(t)
    env = {"env": {"RSK_VERBS_FAIL_REG": 50}}
    server, client = Peer(b, b.ip, **env), Peer(a, b.ip, **env)
    port = t.free_port()
    server.ask("listening", "listen", port)
    for _ in range(4):
        connect(server, client, port)
        earn(t, client, server, port)
        both_ways(client, server, EARN, EARN, chunk=4000)
        for peer in (client, server):
            peer.ask("closed", "close")
    for guest in (a, b):
        ended = registrations(guest)
        t.check(ended["valid"] + ended["invalid"] >= 4, f"each has an outcome: {ended}")
        t.check(ended["late_valid"] <= ended["invalid"] + ended["second_timeout"], ended)
    for peer in (client, server):
        peer.finish()


# ---- rsockd ------------------------------------------------------------------------------------
@case(400)
def refused_at_first(t):
    """The other host's rules do not allow it at first; when they do, the stream, open all the
    while, is promoted.
    """
    a, b = lab(t).guests
    serve(a)
    serve(b, rules=[{"name": "others", "when": {"peers": ["192.0.2.0/24"]}}])
    server, client, port = pair(t)

    def refused():
        both_ways(client, server, 20_000, 20_000, chunk=2000)
        return any(record["reason"] == "peer-policy" for record in ends(t, port))
    a.until(refused, 60, "it to be refused")
    both_ways(client, server, 100_000, 100_000, chunk=2000)
    t.equal(ring_bytes(t, port), [(0, 0), (0, 0)], "by ring")
    b.write("/run/rsock/rsockd.conf", json.dumps({**b.config, "rules": configuration(b)["rules"]}))
    b.post("/v1/reload", {})
    earn(t, client, server, port, 120)
    client.finish()
    server.finish()


@case(600)
def rsockd_restarts(t):
    """rsockd is killed and started again under load: streams do not notice, and new ones are mapped
    again.
    """
    guests = hosts(t)
    server, client, port = pair(t, env=FIRM)
    earn(t, client, server, port)
    links = [record["link"] for record in ends(t, port)]
    endless(client, server)
    goes_on(t, (server, client), 100_000, 60, "both to move")
    for guest in guests:
        guest.daemon.kill()
        guest.daemon.wait()
    goes_on(t, (server, client), 200_000, 60, "both to go on without rsockd")
    for guest in guests:
        serve(guest)
    goes_on(t, (server, client), 200_000, 60, "both to go on with another rsockd")
    for seen in happened(t, port):
        t.check(not {"link-broken", "peer-dead"} & {cause for _event, cause in seen},
                f"what was there: {seen}")
    t.equal([record["link"] for record in ends(t, port)], links, "links")
    other = pair(t)
    earn(t, other[1], other[0], other[2], 120)
    for peer in other[:2]:
        peer.finish()
    wind_up(t, server, client)
    again = pair(t)
    earn(t, again[1], again[0], again[2], 120)
    t.check(on_ring(t, again[2]), "by ring")
    for peer in again[:2]:
        peer.finish()


if __name__ == "__main__":
    sys.exit(main())
