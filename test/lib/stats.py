"""What librsock says about the streams of one case, and demands on it. harness.py makes a Stats for
each Test.

Sources: `rsock stat --json` while programs run, and the line that each program leaves in
RSOCK_STAT_FILE when it ends. Counters only grow, so of several samples of one stream the largest
value counts.
"""
import glob
import ipaddress
import os
import subprocess

from .processes import descendants
from .streams import ring_bytes, streams_of, tcp_bytes

COUNTERS = ("tx_ring_bytes", "rx_ring_bytes", "tx_tcp_bytes", "rx_tcp_bytes", "tx_slots",
            "rx_slots",
            "hash_retries", "promotions", "demotions")


def endpoint(text):
    """("127.0.0.1", 80) from "127.0.0.1:80", "[::1]:80", "::1:80" or a v4-mapped form."""
    host, port = text.rsplit(":", 1)
    address = ipaddress.ip_address(host.strip("[]").split("%")[0])
    if address.version == 6 and address.ipv4_mapped:
        address = address.ipv4_mapped
    return str(address), int(port)


BUFFERED = 12 << 20  # tcp_wmem and tcp_rmem at their largest, and a little


class Stream:
    """The largest counters and the latest state seen of one process's end of one TCP connection."""

    def __init__(self, key, record):
        self.pid, self.local, self.peer = key
        self.record = dict(record)

    def update(self, record):
        merged = dict(record)
        for name in COUNTERS:
            merged[name] = max(int(record.get(name, 0)), int(self.record.get(name, 0)))
        self.record = merged

    def __getattr__(self, name):
        return int(self.record.get(name, 0))

    @property
    def ring_bytes(self):
        return ring_bytes(self.record)

    @property
    def tcp_bytes(self):
        return tcp_bytes(self.record)

    @property
    def reason(self):
        return self.record.get("reason", "")

    def line(self):
        record = self.record
        return (f"{self.pid:>7} {record.get('comm', ''):<15} {self.local[0]}:{self.local[1]} <-> "
                f"{self.peer[0]}:{self.peer[1]} tx {record.get('tx')} "
                f"{self.tx_ring_bytes}/{self.tx_tcp_bytes} "
                f"rx {record.get('rx')} {self.rx_ring_bytes}/{self.rx_tcp_bytes} (ring/tcp) "
                f"{self.reason} "
                f"promotions {self.promotions} demotions {self.demotions} "
                f"{record.get('demote_cause', '')}")


class Stats:
    def __init__(self, test, folder):
        self.test = test
        self.folder = folder
        self.streams = {}
        self.trouble = []
        self.offsets = {}
        self.words = ["stat", "--json"]
        # ports of clients inside the harness, which are never preloaded: no demand counts them
        self.plain_ports = set()

    # ---- collecting ----------------------------------------------------------------------------
    def sample(self):
        """Reads the statistics of running programs, and those that ended programs left."""
        if not self.test.library:
            return
        self.test.seen_pids.update(descendants(os.getpid()))
        shown = subprocess.run([self.test.tool, *self.words], capture_output=True, timeout=20)
        if shown.returncode:
            self.trouble.append(f"rsock stat --json: exit {shown.returncode}: "
                                f"{shown.stderr.decode()[:300]}")
        else:
            self.take(shown.stdout.decode(), "rsock stat --json")
        for path in glob.glob(os.path.join(self.folder, "*.ndjson")):
            with open(path) as file:
                file.seek(self.offsets.get(path, 0))
                text = file.read()
            complete = text.rfind("\n") + 1
            self.offsets[path] = self.offsets.get(path, 0) + len(text[:complete].encode())
            for line in text[:complete].splitlines():
                self.take(line, os.path.basename(path))

    def take(self, text, source):
        try:
            records = streams_of(text)
        except (ValueError, KeyError, TypeError) as error:
            self.trouble.append(f"{source}: not the promised JSON ({error}): {text[:200]}")
            return
        same = {}
        for record in records:
            if int(record["pid"]) not in self.test.seen_pids and source == "rsock stat --json":
                continue
            try:
                peer = endpoint(record["peer"])
                # A stream that ended after a few calls never asked for its own address: its time
                # identifies it.
                began = (record["pid"],
                         record["history"][0]["time_ns"]) if record["local"] == "-" else None
                same[began] = same.get(began, -1) + 1
                local = ("-", None, began, same[began]) if began else endpoint(record["local"])
                key = (int(record["pid"]), local, peer)
            except ValueError:
                continue
            if key in self.streams:
                self.streams[key].update(record)
            else:
                self.streams[key] = Stream(key, record)

    def of_port(self, port, side):
        if side == "server":
            return [stream for stream in self.streams.values()
                    if stream.local[1] == port and stream.peer[1] not in self.plain_ports]
        return [stream for stream in self.streams.values() if stream.peer[1] == port]

    # ---- demands -------------------------------------------------------------------------------
    def demand(self, condition, message):
        if not condition:
            self.test.not_direct.append(message)

    def direct(self, port, to_server=0, to_client=0, share=0.9, streams=1,
               sides=("server", "client"), bulk=False):
        """Demands that both ends of the streams to a server's port moved at least so many bytes
        through rings.

        share: how much of all bytes in a direction that has a demand must have gone through rings.
        It is what a busy machine reaches: a reader that gets no processor for 50 ms makes its
        sender fall back to TCP for a while. Tests of short lives (test/fault) demand less; they
        check that it happens, and that nothing is lost.

        streams: how many streams, seen from each side, must have been promoted.

        bulk: one side floods the other. What went into the kernel's buffers before the two ends
        were paired (BUFFERED for each stream, less than half of all) is excused; it is more on a
        busy machine.
        """
        self.sample()
        for side in sides:
            found = self.of_port(port, side)
            promoted = [stream for stream in found if stream.promotions and
                        stream.ring_bytes]
            self.demand(len(promoted) >= streams,
                        f"port {port}, {side}: {len(promoted)} of {len(found)} streams promoted, "
                        f"wanted {streams}")
            for wanted, way in ((to_server, "rx" if side == "server" else "tx"),
                                (to_client, "tx" if side == "server" else "rx")):
                if not wanted:
                    continue
                ring = sum(getattr(stream, way + "_ring_bytes") for stream in found)
                tcp = sum(getattr(stream, way + "_tcp_bytes") for stream in found)
                if bulk:
                    excused = min(tcp, BUFFERED * len(found), (ring + tcp) // 2)
                    tcp -= excused
                    wanted = max(0, wanted - excused)
                self.demand(ring >= wanted * share,
                            f"port {port}, {side} {way}: {ring} bytes through rings, "
                            f"{tcp} by TCP; wanted {share:.0%} of {wanted}")
                self.demand(ring >= share * (ring + tcp),
                            f"port {port}, {side} {way}: {ring} of {ring + tcp} bytes through "
                            f"rings, wanted {share:.0%}")
        self.mirrored(port)

    def mirrored(self, port):
        """No end may have received more through the ring than the other end sent into it."""
        sent = {}
        for stream in self.streams.values():
            key = (stream.local, stream.peer)
            sent[key] = sent.get(key, 0) + stream.tx_ring_bytes
        for stream in self.of_port(port, "server") + self.of_port(port, "client"):
            other = (stream.peer, stream.local)
            if other in sent and stream.rx_ring_bytes > sent[other] and self.ended(other):
                self.test.check(False, f"received more than was sent: {stream.line()}")

    def ended(self, key):
        return all(not stream.record.get("open", True) for stream in self.streams.values()
                   if (stream.local, stream.peer) == key)

    def plain(self, port, side, reasons=None, streams=1, bytes_moved=0):
        """Demands that all streams of a preloaded side stayed on TCP, each with a reason (one of
        reasons).
        """
        self.sample()
        found = self.of_port(port, side)
        self.demand(len(found) >= streams,
                    f"port {port}, {side}: {len(found)} streams seen, wanted {streams}")
        for stream in found:
            self.demand(not stream.ring_bytes + stream.promotions,
                        f"not plain TCP: {stream.line()}")
            self.demand(stream.reason and stream.reason != "direct",
                        f"no reason given: {stream.line()}")
            # A stream that carried less than it needs for promotion gives that as its reason.
            if reasons and not (stream.reason == "not-earned" and
                                stream.tcp_bytes < 65536):
                self.demand(stream.reason in reasons,
                            f"reason not one of {reasons}: {stream.line()}")
        moved = sum(stream.tcp_bytes for stream in found)
        self.demand(moved >= bytes_moved,
                    f"port {port}, {side}: {moved} bytes counted on TCP, wanted {bytes_moved}")

    def undisturbed(self, port):
        """Demands that promoted streams were never demoted."""
        self.sample()
        for stream in self.of_port(port, "server") + self.of_port(port, "client"):
            self.demand(not stream.demotions, f"demoted: {stream.line()}")

    def shared_for_a_while(self, port):
        """Demands that forks, and nothing else, took promoted streams to TCP, and that each came
        back.
        """
        self.sample()
        for stream in self.of_port(port, "server") + self.of_port(port, "client"):
            self.demand(not stream.demotions
                        or stream.record["demote_cause"] in ("shared-holder", "peer-fell-back"),
                        f"not by a fork: {stream.line()}")
            # Two directions were promoted at first; the last fork may have been the last event of
            # all.
            self.demand(not stream.demotions or stream.promotions > 2,
                        f"never back: {stream.line()}")

    # ---- showing -------------------------------------------------------------------------------
    def summary(self):
        ring = sum(stream.tx_ring_bytes for stream in self.streams.values())
        tcp = sum(stream.tx_tcp_bytes for stream in self.streams.values())
        direct = sum(bool(stream.promotions) for stream in self.streams.values())
        return (f"direct {direct} of {len(self.streams)} stream ends, {ring} bytes by ring, {tcp} "
                f"by TCP")

    def report(self, out):
        print(f"--- streams: {self.summary()}", file=out)
        for stream in list(self.streams.values())[:40]:
            print("    " + stream.line(), file=out)
