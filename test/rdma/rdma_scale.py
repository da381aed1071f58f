#!/usr/bin/python3
"""Many streams, many links, many ends: contents are right, and what they leave behind is nothing."""
import sys

from hosts import connect, earn, hosts, pair, queue_pairs
from harness import Failure
from rdma_streams import crowd
from rdmalab import case, main


@case(900, long=True)
def thousand_streams(t):
    """A thousand streams between two processes are one link, with one queue pair."""
    crowd(t, 1000, limits={"NOFILE": 4096})


def together(pairs, size, seconds=400):
    """All of them at once, both ways."""
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
    return {(stream.pid, stream.link) for _server, _client, port in pairs for side in ("server", "client")
            for stream in t.stats.of_port(port, side)[-1:] if stream.record["tx"] == stream.record["rx"] == "ring"}


@case(900, long=True)
def fifty_processes(t):
    """Fifty processes in each guest, each with a stream to one of the other's: fifty links."""
    guests = hosts(t)
    count = 50
    had = [queue_pairs(guest) for guest in guests]
    pairs = []
    for number in range(count):  # one after the other: a process has two seconds to be ready for who comes to it
        server, client, port = pair(t, at=((1, 0), (0, 1))[number % 2])
        earn(t, client, server, port)
        pairs.append((server, client, port))
    together(pairs, 200_000)
    together(pairs, 20_000)  # who was on TCP for a moment is back
    t.check(len(links_of(t, pairs)) >= 2 * count - 4, f"of {2 * count} ends only {len(links_of(t, pairs))} are on their link")
    for guest, before in zip(guests, had):
        t.equal(len(queue_pairs(guest)) - len(before), count, f"queue pairs in {guest.name}")
    for server, client, _port in pairs:
        client.order("end")
        server.order("end")
    for server, client, _port in pairs:
        client.handle.wait(120, 0)
        server.handle.wait(120, 0)
    for guest, before in zip(guests, had):
        guest.until(lambda guest=guest, before=before: len(queue_pairs(guest)) <= len(before), 60, "the queue pairs to be gone")


def descriptors(peer):
    """How many it has, ours with them."""
    return int(peer.guest.sh(f"ls /proc/{peer.handle.pid}/fd | wc -l"))


@case(300)
def unused_link(t):
    """A link that no stream has any more is let go after a while, and made anew for the next stream."""
    guests = hosts(t)
    had = [len(queue_pairs(guest)) for guest in guests]
    server, client, port = pair(t)
    earn(t, client, server, port)
    used = [descriptors(peer) for peer in (server, client)]
    for peer in (client, server):
        peer.ask("closed", "close")
    for guest, before in zip(guests, had):
        guest.until(lambda guest=guest, before=before: len(queue_pairs(guest)) == before, 120, "the queue pair to be gone")
    connect(server, client, port)
    left = [descriptors(peer) for peer in (server, client)]
    t.check(all(now < then - 10 for now, then in zip(left, used)), f"descriptors with a link {used}, without {left}")
    earn(t, client, server, port)
    for peer in (client, server):
        peer.finish()


if __name__ == "__main__":
    sys.exit(main())
