#!/usr/bin/python3
"""librsock-verbs.so between two hosts, without the rest of librsock: bin/verbs_pair moves slots
over rails and checks them.
"""
import json
import re
import signal
import sys
from errno import EPIPE, ETIMEDOUT

from rdmalab import ROOT, SCALE, case, lab, main

PAIR = f"{ROOT}/bin/verbs_pair"
ENV = {"RSOCK_VERBS": f"{ROOT}/lib/librsock-verbs.so", "ASAN_OPTIONS": "detect_leaks=0",
       "RSK_VERBS_ACK_TIMEOUT": 17}  # a guest may stall for longer than a rail would stand
PORT = 7300


def pair(t, *options, server_env=None, client_env=None, address=None, limits=None):
    """Starts both programs; the server is in guest 2."""
    a, b = lab(t).guests
    server = b.start([PAIR, "server", PORT], env={**ENV, **(server_env or {})}, limits=limits)
    b.listening(PORT, handle=server)
    client = a.start([PAIR, "client", address or b.ip, PORT, *options],
                     env={**ENV, **(client_env or {})}, limits=limits)
    return server, client


def said(handle):
    """The last line of its output, decoded."""
    return json.loads(handle.out().strip().splitlines()[-1])


def traffic(t, *options, **how):
    """Runs both to their ends; returns what both say."""
    server, client = pair(t, *options, **how)
    client.wait(expect=0)
    server.wait(expect=0)
    s, c = said(server), said(client)
    t.check(c["in"] > 0 and s["in"] > 0, f"nothing came: {c} {s}")
    t.equal((c["in"], s["in"]), (s["out"], c["out"]), "what came in of what went out")
    t.equal((c["late"], s["late"]), (0, 0), "wake-ups that were lost")
    return c, s


@case(300)
def direct(t):
    """Every ring registered: few writes for many slots, small ones inline, each batch one
    completion; it was RDMA.
    """
    before = lab(t)[1].hw_counters()["sent_pkts"]
    c, s = traffic(t, "streams=16", "threads=4", "seconds=4")
    t.check(lab(t)[1].hw_counters()["sent_pkts"] - before > c["out"] // 5000,
            "the device did not send that much")
    for one, other in ((c, s), (s, c)):
        t.equal((one["indirect_slots"], one["register_failed"]), (0, 0),
                "indirect, failed registrations")
        t.check(one["with_imm"] < other["slots"], f"more notices than slots: {one}")
        t.check(0 < one["inlined"] < one["writes"], f"inline: {one}")


@case(300)
def ping(t):
    """One slot at a time, both ends asleep in between: every wake-up arrives."""
    c, s = traffic(t, "ping=1", "streams=3", "threads=3", "seconds=6", "largest=300")
    t.check(c["slept"] > 20 and s["slept"] > 20, f"nobody slept: {c} {s}")


@case(300)
def ipv6(t):
    traffic(t, "seconds=2", address=lab(t)[2].ip6)


@case(300)
def indirect(t):
    """No ring registered: everything goes through the small indirect buffer, which is full most of
    the time.
    """
    c, s = traffic(t, "way=i", "streams=16", "threads=4", "seconds=4", "largest=16384")
    for one, other in ((c, s), (s, c)):
        t.check(one["indirect_bytes"] >= other["in"], f"not all of it: {one}")
        t.check(one["held_back"] > 0, f"it was never full: {one}")


def processor_ticks(handle):
    """Processor time that it has had, in hundredths of a second."""
    fields = handle.guest.read(f"/proc/{handle.pid}/stat").rsplit(b")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


@case(300)
def full(t):
    """The indirect buffer is full and is not emptied: a thread that waits for room sleeps, and so
    does the main thread.
    """
    server, client = held(t, "hold", "way=i")
    server.kill(signal.SIGSTOP)
    client.guest.sh("sleep 2")
    before = processor_ticks(client)
    client.guest.sh("sleep 4")
    ticks = processor_ticks(client) - before
    t.check(ticks < 200, f"{ticks / 4:.0f} % of a processor")
    server.kill(signal.SIGCONT)
    client.kill()
    server.wait(expect=0)


@case(300)
def changing(t):
    """The way changes from direct to indirect and back all the time."""
    c, s = traffic(t, "way=s", "streams=16", "threads=4", "seconds=6")
    for one in (c, s):
        t.check(0 < one["indirect_bytes"] < one["out"], f"both ways: {one}")


@case(300)
def registration_fails(t):
    """Half of the rings cannot be registered: those are reached indirectly."""
    c, s = traffic(t, "streams=16", "seconds=3", client_env={"RSK_VERBS_FAIL_REG": 50})
    t.check(c["register_failed"] > 0, f"none failed: {c}")
    t.check(0 < s["indirect_bytes"] < s["out"], f"the client's rings both ways: {s}")
    t.equal(c["indirect_bytes"], 0, "the server's rings are all registered")


@case(300)
def memory_lock(t):
    """As much locked memory as the buffers and control blocks take, and a ring or two: the real
    limit, of another user.
    """
    a, b = lab(t).guests
    server = b.start([PAIR, "server", PORT], env=ENV)
    b.listening(PORT, handle=server)
    client = a.start([PAIR, "client", b.ip, PORT, "streams=16", "seconds=3"], env=ENV, user=1000,
                     limits={"MEMLOCK": 262144})
    client.wait(expect=0)
    server.wait(expect=0)
    c, s = said(client), said(server)
    has = c["registered_bytes"] - c["deregistered_bytes"]
    t.check(c["register_failed"] > 0 and has <= 262144, f"the limit: {c}")
    t.equal((c["in"], s["in"]), (s["out"], c["out"]), "what came in of what went out")
    t.check(c["indirect_bytes"] > 0 and s["indirect_bytes"] > 0, f"indirectly: {c} {s}")


@case(300)
def reads(t):
    c, s = traffic_of_reads(t)
    t.equal((c["reads"], s["reads"]), (8, 8), "READs")


def traffic_of_reads(t):
    server, client = pair(t, "mode=read", "streams=8")
    client.wait(expect=0)
    server.wait(expect=0)
    return said(client), said(server)


@case(300)
def mailboxes(t):
    """Messages that their owners change all the time, read by RDMA READ: some are torn, and no torn
    one is accepted.
    """
    for address in (None, lab(t)[2].ip6):
        server, client = pair(t, "mode=mailboxes", "streams=2", "seconds=6", address=address)
        client.wait(expect=0)
        server.wait(expect=0)
        for handle in (server, client):
            boxes, verbs = (json.loads(line) for line in handle.out().strip().splitlines()[-2:])
            t.equal(boxes["gets"], boxes["empty"] + boxes["torn"] + boxes["old"] + boxes["whole"],
                    f"what became of gets: {boxes}")
            t.equal(verbs["reads"], boxes["gets"], "of them RDMA READs")
            t.check(boxes["empty"] > 0 and boxes["whole"] > 100 and boxes["commands"] > 10,
                    f"{boxes}")
            t.check(boxes["torn"] > 0, f"none was torn, which was not tried then: {boxes}")
            print(boxes, flush=True)


def reservations(t, seconds, least=20):
    """Runs initiators over two rails, which are to take more than @least; checks what the client
    says against how often the record was changed.
    """
    env = {"RSOCK_VERBS": f"{ROOT}/lib/librsock-verbs-mech.so"}
    server, client = pair(t, "mode=locked", "streams=1", f"seconds={seconds}", server_env=env,
                          client_env=env)
    client.wait(expect=0)
    server.wait(expect=0)
    told, versions = (json.loads(handle.out().strip().splitlines()[-2])
                      for handle in (client, server))
    t.check(told["taken"] > least and told["refused"] > 0, f"reservations: {told}")
    # The others are the joins, the reservation after the lock was broken, and its return.
    t.equal(versions["versions"] - 1, 2 * told["taken"] + told["adds"] + 8 + 2,
            "changes of the record")
    t.check(told["atomics"] >= versions["versions"], f"by atomic operations: {told}")
    t.equal(versions["atomics"], 0, "the server's own")


@case(400)
def locked(t):
    """Many reservations by locked access: none is lost and none counted twice; a refused one has
    changed nothing; a kept lock is broken.
    """
    reservations(t, 4)


@case(400)
def locked_loss(t):
    """The same with lost, late and duplicated packets."""
    for spec in ("loss 3%", "delay 3ms reorder 25% 50%", "duplicate 5%"):
        for guest in lab(t).guests:
            guest.netem(spec, only="roce")
        reservations(t, 4, 5)  # a lost packet costs a tenth of a second and more
        for guest in lab(t).guests:
            guest.netem(None)


@case(400)
def again(t):
    """The rail is broken and connected again, with other data in the same rings."""
    traffic(t, "rounds=6", "seconds=1", "way=s")


@case(300)
def wrong_key(t):
    """The rail with wrong keys breaks, at both ends; the other rail of the same processes goes on
    to its end.
    """
    server, client = pair(t, "mode=rkey", "seconds=3")
    client.wait(expect=0)
    server.wait(expect=0)


@case(600)
def hostile(t):
    """Whatever a hostile peer does on its rail, that rail breaks, and the process's other rail goes
    on with right contents.
    """
    server, client = pair(t, "mode=hostile", "seconds=1")
    client.wait(expect=0)
    server.wait(expect=0)


@case(300)
def flood(t):
    """Notices that are not taken: their sender uses up its own receives only, and another rail's
    notice is taken.
    """
    server, client = pair(t, "mode=flood")
    client.wait(expect=0)
    server.wait(expect=0)
    t.check(256 <= json.loads(client.out().splitlines()[0])["flood"] <= 1024,
            f"its share: {client.out()}")


@case(400)
def loss(t):
    """Lost, late, duplicated and reordered packets: they only take time."""
    a, b = lab(t).guests
    before = b.hw_counters()
    for spec in ("loss 3%", "delay 3ms reorder 25% 50%", "duplicate 5%"):
        for guest in (a, b):
            guest.netem(spec, only="roce")
        traffic(t, "streams=4", "seconds=3", "way=s")
        for guest in (a, b):
            guest.netem(None)
    now = b.hw_counters()
    for name in ("out_of_seq_request", "duplicate_request"):
        t.check(now[name] > before[name], f"{name}: {now[name]}, no more than before")


def held(t, mode, *options):
    server, client = pair(t, f"mode={mode}", "seconds=100", *options)
    for handle in (server, client):
        handle.guest.until(lambda handle=handle: "held" in handle.out(), 10 * SCALE,
                           "both to hold the rail")
    return server, client


@case(400)
def killed(t):
    """Either side is killed under load: the other one is told."""
    for victim in (0, 1):
        both = held(t, "hold")
        both[victim].kill()
        both[1 - victim].wait(expect=0)
        t.check('"down"' in both[1 - victim].out(), both[1 - victim].out())


@case(300)
def fork(t):
    """A child that lives on does not keep the rail of its killed parent alive."""
    server, client = held(t, "fork")
    client.kill()
    server.wait(expect=0)
    child = int(re.search(r"child (\d+)", client.out())[1])
    t.check(lab(t)[1].sh(f"cat /proc/{child}/comm").strip() == "verbs_pair",
            "the child is gone, too")
    lab(t)[1].sh(f"kill -9 {child}")


@case(400)
def black_hole(t):
    """All packets of both ends are lost: both notice, by their probes if the last message of the
    first one is lost. Not by netem: a send that fails while the queue discipline is exchanged ends
    a rail at once. The reason is the device's: rxe reports the request whose retries are used up
    (ETIMEDOUT), or now and then only that the queue pair is in error (EPIPE).
    """
    both = held(t, "hold")
    for guest in lab(t).guests:
        guest.deaf(True, "roce")
    errors = []
    for handle in both:
        handle.wait(expect=0)
        errors.append(int(re.search(r'"down": (\d+)', handle.out())[1]))
    t.check(set(errors) <= {ETIMEDOUT, EPIPE}, f"why they broke: {errors}")


if __name__ == "__main__":
    sys.exit(main())
