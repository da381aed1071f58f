#!/usr/bin/python3
"""Many streams, many links, many processes: contents are right, and nothing stays behind."""
import sys

from hosts import connect, earn, hosts, pair, queue_pairs
from lib.harness import Failure
from rdma_streams import crowd
from rdmalab import case, lab, main

# A guest with so much to do stalls for longer than a rail would stand: a packet is sent again after
# 0.5 s, not 67 ms.
PATIENT = {"RSK_VERBS_ACK_TIMEOUT": "17"}


@case(900, long=True)
def thousand_streams(t):
    """A thousand streams between two processes share one link, with one queue pair."""
    crowd(t, 1000, limits={"NOFILE": 4096}, env=PATIENT)


def together(pairs, size, seconds=400):
    """Moves bytes on all pairs at once, both ways."""
    for server, client, _port in pairs:
        for peer in (server, client):
            peer.flow("block", size, size, 2000)
    for server, client, _port in pairs:
        for peer in (server, client):
            result = peer.result(seconds)
            if (result["sent"], result["received"]) < (size, size):
                raise Failure(f"not all arrived: {result}")


def links_of(t, pairs):
    """(process, link) of all their ends that are on the ring, both ways."""
    t.stats.sample()
    return {(stream.pid, stream.link) for _server, _client, port in pairs
            for side in ("server", "client")
            for stream in t.stats.of_port(port, side)[-1:]
            if stream.record["tx"] == stream.record["rx"] == "ring"}


def all_linked(t, pairs, seconds):
    """Sends on all pairs until both ends of each are on a link of their own; their statistics are
    sampled once a round.
    """
    def tried():
        together(pairs, 20_000)
        return len(links_of(t, pairs)) == 2 * len(pairs)
    try:
        lab(t)[1].until(tried, seconds, "all of them to be on their links")
    except Failure as failure:
        raise Failure(
            f"{failure}: of {2 * len(pairs)} ends only {len(links_of(t, pairs))} are") from None


@case(900, long=True)
def fifty_processes(t):
    """Fifty processes in each guest, each with a stream to one of the other's: fifty links."""
    guests = hosts(t)
    count, some = 50, 5
    had = [queue_pairs(guest) for guest in guests]
    pairs = []
    for _ in range(count // some):  # not all at once: a process has two seconds to admit a new peer
        new = [pair(t, at=((1, 0), (0, 1))[number % 2], env=PATIENT) for number in range(some)]
        all_linked(t, new, 120)
        pairs += new
    together(pairs, 200_000)
    all_linked(t, pairs, 120)  # those that fell back to TCP for a moment are on the ring again
    for guest, before in zip(guests, had):
        t.equal(len(queue_pairs(guest)) - len(before), count, f"queue pairs in {guest.name}")
    for server, client, _port in pairs:
        client.order("end")
        server.order("end")
    for server, client, _port in pairs:
        client.handle.wait(120, 0)
        server.handle.wait(120, 0)
    for guest, before in zip(guests, had):
        guest.until(lambda guest=guest, before=before: len(queue_pairs(guest)) <= len(before), 60,
                    "the queue pairs to be gone")


def descriptors(peer):
    """Number of its descriptors, librsock's included."""
    return int(peer.guest.sh(f"ls /proc/{peer.handle.pid}/fd | wc -l"))


@case(300)
def unused_link(t):
    """A link that no stream uses any more is freed after a while, and made anew for the next
    stream.
    """
    guests = hosts(t)
    had = [len(queue_pairs(guest)) for guest in guests]
    server, client, port = pair(t)
    earn(t, client, server, port)
    used = [descriptors(peer) for peer in (server, client)]
    for peer in (client, server):
        peer.ask("closed", "close")
    for guest, before in zip(guests, had):
        guest.until(lambda guest=guest, before=before: len(queue_pairs(guest)) == before, 120,
                    "the queue pair to be gone")
    connect(server, client, port)
    left = [descriptors(peer) for peer in (server, client)]
    t.check(all(now < then - 10 for now, then in zip(left, used)),
            f"descriptors with a link {used}, without {left}")
    earn(t, client, server, port)
    for peer in (client, server):
        peer.finish()


if __name__ == "__main__":
    sys.exit(main())
