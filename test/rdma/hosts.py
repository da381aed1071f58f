"""Streams between two guests: starts rsockd on both and bin/fault_peer in each, and checks what
librsock says of the streams. The rdma_*.py scripts use it.
"""
import json
import random
import struct

from guest import ROOT
from lib.harness import Failure
from rdmalab import SCALE, lab

LOCAL = "/run/rsock/local.sock"  # where librsock looks for it
IOS = ("block", "poll", "epoll", "edge")
# env of a pair whose rail must not break: a guest may stall for longer than a rail normally stands
FIRM = {"RSK_VERBS_ACK_TIMEOUT": 17}
# (test, port, side) -> events seen so far; a stream's history keeps only the last few
HAPPENED = {}
EARN = 400_000  # bytes in small messages, each way: more than a stream needs for promotion


def configuration(guest, **changed):
    """rsockd's configuration that maps everything between the two guests."""
    return {"local": LOCAL, "soft-rdma": "use", "rnics": [{"name": guest.rnic,
                                                           "addresses": [guest.ip, guest.ip6],
                                                           "bandwidth": "10Gbit",
                                       "sessions": 10000}],
            "services": [{"name": "any", "ports": ["1-65535"]}],
            "rules": [{"name": "lan", "when": {"peers": ["10.9.0.0/16", "fd09::/16"]}}], **changed}


def serve(guest, **changed):
    """Starts rsockd in a guest."""
    guest.sh("mkdir -p /run/rsock")
    return guest.rsockd(configuration(guest, **changed))


def hosts(t, **changed):
    """Both guests, with rsockd running."""
    guests = lab(t).guests
    for guest in guests:
        serve(guest, **changed)
    return guests


class Peer:
    """bin/fault_peer in a guest, with the interface of test/fault/peers.py."""

    count = 0

    def __init__(self, guest, address, preload=True, **options):
        Peer.count += 1
        self.guest = guest
        self.progress_file = f"/dev/shm/progress-{Peer.count}"
        guest.sh(f"rm -f {self.progress_file}")
        self.handle = guest.start([f"{ROOT}/bin/fault_peer", self.progress_file, address],
                                  preload=preload, stdin="pipe",
                                  stdout="pipe", **options)

    def describe(self):
        return self.handle.describe()

    def order(self, *words):
        self.handle.send(" ".join(map(str, words)) + "\n")

    def answer(self, wanted, seconds=60):
        """The next line; it must start with wanted."""
        try:
            line = self.handle.readline(seconds)
        except Failure as failure:
            raise Failure(f"{failure}; wanted '{wanted}'; (sent, trying, received) = "
                          f"{self.progress()}") from None
        if not line.startswith(wanted):
            raise Failure(f"{self.describe()}: answered '{line}', not '{wanted}'")
        return line

    def ask(self, wanted, *words, seconds=60):
        self.order(*words)
        return self.answer(wanted, seconds)

    def flow(self, io, tx, rx, chunk=65536, fin=0):
        self.order("flow", io, tx, rx, chunk, fin)

    def result(self, seconds=120):
        """The result of the flow in progress; wrong bytes are a failure in every case."""
        result = json.loads(self.answer("{", seconds))
        if result["wrong_at"] >= 0:
            raise Failure(f"{self.describe()}: wrong byte at position {result['wrong_at']}: "
                          f"{result}")
        return result

    def progress(self):
        """Bytes sent, tried to be sent, received: also of a program that was killed."""
        try:
            return struct.unpack("QQQ", self.guest.read(self.progress_file)[:24])
        except (OSError, struct.error):
            return 0, 0, 0

    def kill(self):
        self.handle.kill()
        self.handle.wait()

    def finish(self, word="end", seconds=60):
        """Lets it end by itself; its status must be 0."""
        self.order(word)
        self.handle.wait(seconds, 0)


def connect(server, client, port, *source):
    """Connects the two; the server listens already. Returns the client's port."""
    seed = random.getrandbits(40)
    server.order("accept", seed)
    words = client.ask("connected", "connect", port, seed, *source).split()
    server.answer("connected")
    return int(words[1])


def pair(t, way="ip", at=(1, 0), preload=(True, True), **options):
    """Starts a server and a client with a connection between them; returns both and the port. at:
    which guest each is in; way: "ip" or "ip6"; options: of Guest.start().
    """
    guests = lab(t).guests
    address = getattr(guests[at[0]], way)
    server = Peer(guests[at[0]], address, preload[0], **options)
    client = Peer(guests[at[1]], address, preload[1], **options)
    port = t.free_port()
    server.ask("listening", "listen", port)
    connect(server, client, port)
    return server, client, port


def both_ways(one, other, up, down, chunk=16384, fin=0, ios=("block", "block"), seconds=120):
    """Moves up bytes from one to other and down bytes back; all must arrive."""
    one.flow(ios[0], up, down, chunk, fin)
    other.flow(ios[1], down, up, chunk, fin)
    results = one.result(seconds), other.result(seconds)
    for result, sent, received in zip(results, (up, down), (down, up)):
        if (result["sent"], result["received"]) < (sent, received):
            raise Failure(f"not all arrived: {results}, wanted {up} up and {down} down")
    return results



def widen(one, other, back=1 << 20):
    """Moves so much, from one to other and back bytes the other way, that their rings become wide:
    they then take a burst of 60,000 bytes that nobody reads, until they rest for five seconds.
    """
    both_ways(one, other, 1 << 20, back, chunk=65536)


def ends(t, port):
    """[server's record, client's record] as `rsock stat` has them now; {} for an end without one.
    """
    t.stats.sample()
    found = []
    for side in ("server", "client"):
        records = [stream.record for stream in t.stats.of_port(port, side)]
        found.append(records[-1] if records else {})
        HAPPENED.setdefault((t, port, side), set()).update(events(found[-1]))
    return found


def on_ring(t, port):
    """True if both ends send by ring now, over an RDMA device."""
    found = ends(t, port)
    if not all(record.get("tx") == record.get("rx") == "ring" for record in found):
        return False
    if not all(record["fabric"] == "verbs" and record["device"] for record in found):
        raise Failure(f"a ring, but not of verbs: {said(found)}")
    return True


def earn(t, one, other, port, seconds=60):
    """Sends messages in turns until both ends send and receive by ring."""
    def tried():
        both_ways(one, other, 20_000, 20_000, chunk=2000)
        return on_ring(t, port)
    try:
        one.guest.until(tried, seconds, "the stream to be promoted")
    except Failure as failure:
        raise Failure(f"{failure}: {said(ends(t, port))}") from None


def said(records):
    return json.dumps([{key: value for key, value in record.items()
                        if key not in ("comm", "local", "open")}
                       for record in records])


def happened(t, port):
    """[events of the server's end, of the client's], as (event, cause)."""
    ends(t, port)
    return [HAPPENED[t, port, side] for side in ("server", "client")]


def events(record):
    """[(event, cause)] of a stream's history."""
    return [(entry["event"], entry["cause"]) for entry in record.get("history", [])]


class Wire:
    """Counts what the RDMA devices of the guests have sent since it was made."""

    def __init__(self, t):
        self.guests = lab(t).guests
        self.before = [guest.hw_counters()["sent_pkts"] for guest in self.guests]

    def sent(self):
        return [guest.hw_counters()["sent_pkts"] - had
                for guest, had in zip(self.guests, self.before)]

    def check(self, t, least):
        """Checks that each guest has sent so many packets."""
        for guest, sent in zip(self.guests, self.sent()):
            t.check(sent >= least, f"{guest.name} sent {sent} RDMA packets, wanted {least}")


def queue_pairs(guest):
    """Numbers of a guest's queue pairs of type RC."""
    shown = json.loads(guest.sh("rdma -j resource show qp"))
    return sorted(qp["lqpn"] for qp in shown if qp.get("type") == "RC")


def registered(guest):
    """RDMA resources of a guest's processes: RC queue pairs, memory regions, bytes of those."""
    regions = json.loads(guest.sh("rdma -j resource show mr"))
    return len(queue_pairs(guest)), len(regions), sum(int(mr.get("mrlen", 0)) for mr in regions)


def ring_bytes(t, port):
    """[server's, client's] of (sent, received), by ring."""
    return [(record.get("tx_ring_bytes", 0), record.get("rx_ring_bytes", 0))
            for record in ends(t, port)]


def plain(t, port, *reasons, bytes_moved=1):
    """Checks that nothing went by ring, and that the ends with a record give one of these reasons.
    """
    t.stats.sample()
    found = t.stats.of_port(port, "server") + t.stats.of_port(port, "client")
    t.check(found, f"nobody knows a stream of port {port}")
    for stream in found:
        t.check(not stream.promotions + stream.tx_ring_bytes + stream.rx_ring_bytes,
                f"not plain TCP: {stream.line()}")
        t.check(stream.reason in reasons, f"reason not one of {reasons}: {stream.line()}")
        t.check(stream.tx_tcp_bytes + stream.rx_tcp_bytes >= bytes_moved,
                f"moved less: {stream.line()}")


def wedged(guest):
    """Devices of a guest whose queue pair for connecting (GSI) is in state ERR. rxe leaves it so
    for good when a send of it fails in a full queue; then no connection by that device succeeds any
    more. machine.py makes such devices anew before the next case.
    """
    return {qp["ifname"] for qp in json.loads(guest.sh("rdma -j resource show qp"))
            if qp.get("type") == "GSI" and qp.get("state") == "ERR"}


__all__ = ["EARN", "FIRM", "IOS", "LOCAL", "Peer", "SCALE", "Wire", "both_ways", "configuration",
           "connect", "earn", "ends",
           "happened", "hosts", "on_ring", "pair", "plain", "queue_pairs", "registered",
           "ring_bytes", "said", "serve",
           "wedged"]
