#!/usr/bin/env python3
"""Measures what a stream and a link between two hosts cost, and how long the first bytes take:
between two guests with RDMA devices.

Two preloaded processes (bin/fault_peer), a pair for each count of streams: the first stream alone,
then the others. Of both processes: memory, locked and registered memory, queue pairs, regions,
descriptors; time from connect() to promotion; traffic of the control connection. Then 128 KiB sent
at once over a fresh connection, repeatedly, while its link is being made.
"""
import argparse
import json
import pathlib
import re
import statistics
import sys
import time

import stages
from rdma_report import table_lines
from rdma_stage import bare_guests, hosts
from stages import Failure

COUNTS, QUICK = (1, 2, 16, 128, 1000), (1, 2, 16)
FIRST, FIRST_S = 5, 6  # connections whose first bytes are timed; seconds of each
PROMOTED_S = 300
STATUS = {"VmRSS": "resident", "RssAnon": "anonymous", "VmLck": "locked", "VmPin": "pinned"}


# ---- what the kernels report of a process ------------------------------------------------------
def status(text):
    """KiB, from the text of /proc/PID/status."""
    found = dict(re.findall(r"^(\w+):\s+(\d+) kB$", text, re.M))
    return {name: int(found.get(key, 0)) for key, name in STATUS.items()}


def memory_files(smaps):
    """Resident KiB of the memory files that the process has mapped, by name, from the text of
    /proc/PID/smaps."""
    pages, name = {}, None
    for line in smaps.splitlines():
        mapping = re.match(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \d+ *(.*)", line)
        if mapping:
            name = re.match(r"/memfd:([^ ]+)", mapping[1])
        elif name and line.startswith("Rss:"):
            pages[name[1]] = pages.get(name[1], 0) + int(line.split()[1])
    return pages


def control(said, pid, port):
    """(messages, bytes) that a process has sent over connections other than those to or from that
    port, from the output of ss -tnpi. Messages are counted as segments with data, which is right
    for short messages sent one at a time."""
    segments = sent = 0
    for line in said.splitlines():
        if f"pid={pid}," not in line or re.search(rf":{port}\s", line):
            continue
        segments += int((re.search(r"data_segs_out:(\d+)", line) or [0, 0])[1])
        sent += int((re.search(r"bytes_sent:(\d+)", line) or [0, 0])[1])
    return segments, sent


def look(peer, port):
    guest, pid = peer.guest, peer.handle.pid
    files = memory_files(guest.read(f"/proc/{pid}/smaps").decode())
    pairs, regions, registered = hosts.registered(guest)
    messages, sent = control(guest.sh("ss -OHtnpi"), pid, port)
    return {**status(guest.read(f"/proc/{pid}/status").decode()),
            "segment": files.get("rsock-link", 0),
            "window": files.get("rsock-mirror", 0), "queue_pairs": pairs, "regions": regions,
            "registered": registered >> 10,
            "descriptors": int(guest.sh(f"ls /proc/{pid}/fd | wc -l")),
            "control_messages": messages, "control_bytes": sent}


# ---- streams -----------------------------------------------------------------------------------
def records(peer):
    return [stream for stream in peer.guest.stat()["streams"] if stream["pid"] == peer.handle.pid
            and stream["open"]]


def direct(peers, count):
    return all(sum(stream["tx"] == stream["rx"] == "ring" for stream in records(peer)) == count
               for peer in peers)


def until_direct(peers, count, talk):
    deadline = time.monotonic() + PROMOTED_S
    while not direct(peers, count):
        if time.monotonic() > deadline:
            raise Failure(f"{count} streams were not direct within {PROMOTED_S} s")
        talk()


def to_ring_s(record):
    """Seconds from connect() or accept() until it sends and receives by the ring; None if the
    history does not tell."""
    at = {}
    for entry in record["history"]:
        at.setdefault(entry["event"], entry["time_ns"])
    if not {"opened", "promoted-tx", "promoted-rx"} <= set(at):
        return None
    return (max(at["promoted-tx"], at["promoted-rx"]) - at["opened"]) / 1e9


def measure(lab, count, port):
    """Looks at (client, server): without a stream, with one, with all; the seconds of the first and
    of the others."""
    for guest in lab.guests:
        guest.until(lambda guest=guest: not hosts.queue_pairs(guest), 60,
                    "queue pairs of others to be gone")
    server, client = (hosts.Peer(guest, lab[2].ip, limits={"NOFILE": 4096})
                      for guest in (lab[2], lab[1]))
    peers = (client, server)
    server.ask("listening", "listen", port)
    looks = [[look(peer, port) for peer in peers]]
    hosts.connect(server, client, port)
    until_direct(peers, 1, lambda: hosts.both_ways(client, server, 400_000, 400_000, chunk=2000))
    looks.append([look(peer, port) for peer in peers])
    first = {stream["local"]: to_ring_s(stream) for stream in records(client)}
    others = []
    if count > 1:
        server.order("crowd", "accept", count - 1)
        client.ask("crowd", "crowd", "connect", port, count - 1, seconds=300)
        server.answer("crowd")

        def talk():
            for peer in peers:
                peer.order("crowd", "talk", max(4, 400 // count), 4096)
            for peer in peers:
                peer.answer("talked, wrong 0", 600)
        until_direct(peers, count, talk)
        looks.append([look(peer, port) for peer in peers])
        others = [to_ring_s(stream) for stream in records(client) if stream["local"] not in first]
    for peer in peers:
        peer.finish()
    return {"count": count, "looks": looks, "first_s": next(iter(first.values())),
            "others_s": [s for s in others if s is not None]}


def first_bytes(lab, port):
    """[(seconds from connect(), seconds of 128 KiB)], and the seconds until the stream was direct.
    """
    program = "/run/bench/first_bytes.py"
    text = (pathlib.Path(__file__).parent / "rdma" / "first_bytes.py").read_text()
    for guest in lab.guests:
        guest.write(program, text)
    server = lab[2].start(["python3", program, "server", port], preload=True)
    lab[2].until(lambda: "listening" in server.out(), 60, "the server to listen")
    stat = f"/run/bench/{port}.stat"
    client = lab[1].start(["python3", program, "client", lab[2].ip, port, FIRST_S], preload=True,
                          env={"RSOCK_STAT_FILE": stat})
    client.wait(60 + FIRST_S, 0)
    server.wait(60, 0)
    streams = [stream for line in lab[1].read(stat).decode().splitlines()
               for stream in json.loads(line)["streams"]
               if stream["peer"].endswith(f":{port}")]
    return {"took": json.loads(client.out()),
            "direct_s": to_ring_s(streams[0]) if streams else None}


# ---- results -----------------------------------------------------------------------------------
def each(run, name):
    """Cost of one more stream, at each end: from one stream to all."""
    one, all_ = run["looks"][1], run["looks"][-1]
    return [(b[name] - a[name]) / (run["count"] - 1) for a, b in zip(one, all_)]


NAMES = ("resident", "anonymous", "segment", "window", "registered", "pinned", "locked",
         "queue_pairs", "regions", "descriptors",
         "control_messages", "control_bytes")


def shown(numbers):
    return " / ".join(f"{number:.4g}" for number in numbers)


def span(seconds):
    if not seconds:
        return ""
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"


def markdown(result):
    runs = result["runs"]
    lines = ["Client / server. Memory in KiB. A link: what the first stream adds to two processes "
             "without one. A stream: what each of the "
             "others adds.", ""]
    many = [run for run in runs if run["count"] > 1]
    rows = []
    for name in NAMES:
        without = [statistics.median(run["looks"][0][side][name] for run in runs)
                   for side in (0, 1)]
        link = [statistics.median(run["looks"][1][side][name] - run["looks"][0][side][name]
                                  for run in runs) for side in (0, 1)]
        rows.append([name.replace("_", " "), shown(without), shown(link),
                     *(shown(each(run, name)) for run in many)])
    lines += table_lines(["", "without a stream", "the link and its first stream",
                          *(f"a stream, of {run['count']}" for run in many)], rows)
    lines += ["", "Seconds from connect() until both directions go by ring, at the client: median "
                  "(lowest to highest).", ""]
    lines += table_lines(["streams", "the first", "the others"],
                         [[str(run["count"]), f"{run['first_s']:.2f}" if run["first_s"] else "",
                           span(run["others_s"])] for run in runs])
    if result["first_bytes"]:
        lines += ["", *first_lines(result["first_bytes"])]
    return lines


def first_lines(found):
    found = [one for one in found if one["direct_s"]]
    if not found:
        return ["First bytes: **no connection was direct**"]
    first = [took for one in found for took in (one["took"][0][1],)]
    before = [took for one in found for at, took in one["took"][1:] if at + took < one["direct_s"]]
    after = [took for one in found for at, took in one["took"] if at > one["direct_s"]]
    waited = [one["direct_s"] + statistics.median(took for at, took in one["took"]
                                                  if at > one["direct_s"]) for one in found]
    return [f"128 KiB over a fresh connection, {len(found)} of them, seconds from connect() to the "
            f"receiver's word, median (lowest to "
            "highest).", ""] + table_lines(
        ["sent at once", "direct after", "if they had waited for that", "later ones, still by TCP",
         "later ones, by ring"],
        [[span(first), span([one["direct_s"] for one in found]), span(waited), span(before),
          span(after)]])


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--quick", action="store_true", help="up to 16 streams")
    p.add_argument("--counts", help="comma-separated counts of streams ("
                   + ",".join(map(str, COUNTS)) + ")")
    p.add_argument("--first", type=int, default=FIRST,
                   help=f"connections whose first bytes are timed ({FIRST})")
    p.add_argument("--json", type=pathlib.Path, default=stages.BUILD / "bench" / "rdma-cost.json",
                   help="result file")
    args = p.parse_args()
    counts = ([int(count) for count in args.counts.split(",")] if args.counts else QUICK
              if args.quick else COUNTS)
    stages.end_on_signals()
    stages.require(stages.BUILD / "bin" / "fault_peer", "qemu-system-x86_64")
    result = {"when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
              "machine": stages.machine(), "runs": [], "first_bytes": []}
    try:
        with bare_guests() as lab:
            for guest in lab.guests:
                hosts.serve(guest)
            for number, count in enumerate(counts):
                result["runs"].append(measure(lab, count, 7500 + number))
                print(f"{count} streams", file=sys.stderr)
            for number in range(args.first):
                result["first_bytes"].append(first_bytes(lab, 7600 + number))
    except Failure as failure:
        sys.exit(f"the guests: {failure}")
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(result, indent=1) + "\n")
    print("\n".join(markdown(result)))
    added = [run["count"] for run in result["runs"]
             for one, all_ in zip(run["looks"][1], run["looks"][-1])
             if one["queue_pairs"] != 1 or all_["queue_pairs"] != 1]
    if added:
        print(f"**more than one queue pair** with {added} streams")
    return 1 if added else 0


if __name__ == "__main__":
    sys.exit(main())
