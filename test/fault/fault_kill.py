#!/usr/bin/python3 -B
"""kill -9 at random moments under load: the survivor gets what TCP would give it, and nothing
leaks.
"""
import os
import random
import sys
import time

from lib.harness import case, main
from peers import IOS, Peer, both_ways, connect, pair, private_shm, warm

ROUNDS = int(os.environ.get("RSOCK_KILL_ROUNDS", "100"))
RESETS = {"ECONNRESET", "EPIPE"}
MEGABYTE = 1_000_000


def seeded(t):
    seed = int(os.environ.get("RSOCK_SEED", random.getrandbits(32)))
    print(f"{t.name}: RSOCK_SEED={seed}")
    random.seed(seed)


def judge(t, what, way, result, dead):
    """Compares what the survivor saw with what the dead process had done (sent, trying, received at
    its death).
    """
    sent, trying, _received = dead
    t.check(result["received"] <= trying,
            f"{what}: received {result['received']} bytes, the dead peer had tried to send only "
            f"{trying}")
    if way == "victim sends":
        # The victim had read everything, so its end is a FIN: all bytes for which its send()
        # returned must arrive.
        t.equal(result["rx_end"], "eof", f"{what}: end of stream after {result}")
        t.check(result["received"] >= sent,
                f"{what}: received {result['received']} of {sent} bytes that were sent")
    elif way == "survivor sends":
        t.check(result["tx_end"] in RESETS, f"{what}: the sender ended with {result}")
        t.check(result["rx_end"] in RESETS | {"eof"},
                f"{what}: the reading half ended with {result}")
    else:
        t.check(result["tx_end"] in RESETS, f"{what}: the sender ended with {result}")
        t.check(result["rx_end"] in RESETS | {"eof"}, f"{what}: the receiver ended with {result}")


def one_round(t, survivor, survivor_serves, port, number):
    way = random.choice(("victim sends", "survivor sends", "both"))
    ios = random.choice(IOS), random.choice(IOS)
    chunk = random.choice((100, 1400, 16384, 65536, 300_000))
    target = int(2 ** random.uniform(0, 24.5)) // (20 if chunk == 100 else 1)
    stopped = random.random() < 0.15 and way != "victim sends"
    what = (f"round {number} ({way}, survivor {ios[0]}, victim {ios[1]}, calls up to {chunk}, kill "
            f"at {target}, stopped {stopped})")
    victim = Peer(t, "victim")
    if survivor_serves:
        client_port = connect(survivor, victim, port, number)
    else:
        port = t.free_port()
        victim.ask("listening", "listen", port)
        client_port = connect(victim, survivor, port, number)
    survivor.flow(ios[0], 0 if way == "victim sends" else "endless", "endless", chunk)
    victim.flow(ios[1], 0 if way == "survivor sends" else "endless", "endless", chunk)
    t.until(lambda: sum(victim.progress()[::2]) >= target, 20,
            f"{what}: progress {victim.progress()}")
    if stopped:
        # Everything between the two fills up; the survivor sleeps in a send or a wait for room.
        os.kill(victim.pid, 19)
        last = [None, 0]

        def stalled():
            now = survivor.progress()
            last[:] = [now, last[1] + 1 if now == last[0] else 0]
            return last[1] >= 3
        t.until(stalled, 20, f"{what}: the survivor to stall")
    else:
        time.sleep(random.uniform(0, 0.01))  # a random moment, not a wait for something
    victim.kill()
    judge(t, what, way, survivor.result(15), victim.progress())
    survivor.ask("closed", "close")
    os.unlink(victim.proc.argv[1])
    return client_port if sum(victim.progress()[::2]) > 4 * MEGABYTE else None


def survive(t, survivor_serves):
    private_shm()  # what is left there in the end then belongs to these processes
    seeded(t)
    survivor = Peer(t, "survivor")
    port = t.free_port()
    if survivor_serves:
        survivor.ask("listening", "listen", port)
    long_ones = set()
    baseline = None
    for number in range(ROUNDS):
        long_ones.add(one_round(t, survivor, survivor_serves, port, number))
        if number == 4:
            baseline = survivor.holdings()
    long_ones.discard(None)
    now = survivor.holdings()
    allowed = {"fds": 1, "threads": 0, "memfd mappings": 1, "mappings": 12}
    for name, more in allowed.items():
        t.check(now[name] <= baseline[name] + more,
                f"leak of {name} over {ROUNDS} killed peers: {baseline[name]} after 5, {now[name]} "
                f"at the end")
    t.stats.sample()
    streams = [stream for stream in t.stats.streams.values() if stream.pid == survivor.pid and
               (stream.peer[1] if survivor_serves else stream.local[1]) in long_ones]
    direct = [stream for stream in streams
              if stream.tx_ring_bytes + stream.rx_ring_bytes > MEGABYTE]
    # 4 MB may be a dozen calls, all of them into the kernel's buffers before the victim's first
    # call: so many rounds must go direct, not all.
    t.stats.demand(len(direct) >= 0.3 * len(long_ones) and direct,
                   f"of {len(long_ones)} rounds with more than 4 MB only {len(direct)} went direct")
    # The survivor still works as at the beginning.
    fresh = Peer(t, "fresh")
    if not survivor_serves:
        port = t.free_port()
        fresh.ask("listening", "listen", port)
    server, client = (survivor, fresh) if survivor_serves else (fresh, survivor)
    connect(server, client, port, 12345)
    both_ways(server, client, 20 * MEGABYTE, 20 * MEGABYTE)
    survivor.ask("closed", "close")
    fresh.ask("closed", "close")
    t.stats.sample()
    survivor.finish()
    fresh.finish()
    # Each user keeps one folder with one file in it.
    folder = f"rsock-{os.geteuid()}"
    left = [name for name in os.listdir("/dev/shm") if name != folder]
    left += [name for name in os.listdir(f"/dev/shm/{folder}") if name != "registry"]
    t.check(not left, f"left in /dev/shm: {left}")


@case(100)
def server_survives(t):
    survive(t, True)


@case(100)
def client_survives(t):
    survive(t, False)


@case(60)
def sent_before_the_end_arrives_after(t):
    """The sender ends in several ways before the receiver reads: all that was sent arrives."""
    for way in ("kill", "_exit", "end", "abandon", "close"):
        for amount in (1, 5000, 200_000):
            for io in IOS:
                server, client, port = pair(t)
                warm(server, client)
                client.flow("block", amount, 0)
                client.result()
                if way == "kill":
                    client.kill()
                elif way == "close":
                    client.ask("closed", "close")
                else:
                    client.finish(way)
                server.flow(io, 0, "endless")
                result = server.result()
                t.equal((result["received"] - 800_000, result["rx_end"]), (amount, "eof"),
                        f"{amount} bytes, then {way}, received by {io}")
                t.stats.sample()
                if way == "close":
                    client.finish()
                server.finish()
    t.stats.direct(port, to_server=500_000, sides=("server",), share=0.25)


@case(60)
def unread_data_resets(t):
    """A process dies, or closes, with bytes unread: the other end gets a reset, as on TCP."""
    for way in ("kill", "close"):
        for io in IOS:
            server, client, port = pair(t)
            warm(server, client)
            server.flow("block", 50_000, 0)
            server.result()
            t.until(lambda: client.ask("unread", "unread") == "unread 50000", 10,
                    "FIONREAD to be 50,000")
            if way == "kill":
                client.kill()
            else:
                client.ask("closed", "close")
            server.flow(io, 0, "endless")
            t.equal(server.result()["rx_end"], "ECONNRESET",
                    f"after {way} with 50,000 bytes unread, {io}")
            t.stats.sample()
            if way == "close":
                client.finish()
            server.finish()
    t.stats.direct(port, to_client=500_000, sides=("server",), share=0.25)


@case(60)
def stopped_and_continued(t):
    """SIGSTOP and SIGCONT of both ends at random moments: nothing is lost, and nothing stuck."""
    seeded(t)
    server, client, port = pair(t)
    size = 300 * MEGABYTE
    server.flow("edge", size, size, 65536, 1)
    client.flow("block", size, size, 65536, 1)
    stops = 0
    while client.progress()[2] < size or server.progress()[2] < size:
        victim = random.choice((server, client))
        os.kill(victim.pid, 19)
        time.sleep(random.uniform(0, 0.04))
        os.kill(victim.pid, 18)
        before = server.progress(), client.progress()
        t.until(lambda: (server.progress(), client.progress()) != before or
                min(server.progress()[2], client.progress()[2]) >= size, 15,
                "bytes to move after SIGCONT")
        stops += 1
    for end in (server, client):
        result = end.result()
        t.equal((result["sent"], result["received"]), (size, size),
                f"{end.proc.name} after {stops} stops")
        end.finish()
    t.stats.direct(port, to_server=size, to_client=size, share=0.25)


if __name__ == "__main__":
    sys.exit(main())
