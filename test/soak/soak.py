#!/usr/bin/python3 -B
"""The soak test: pairs of processes that send each other content that is checked, both ways at
once, while they fork, execute themselves, pass descriptors on, are stopped, are killed, and while
an operator request takes their streams off the ring and puts them back. At the end nothing of the
library's is left: descriptors, mappings, files in /dev/shm, streams, processes.

soak.py [--minutes 10] [--seed N]: ends with 1, and says why, at the first thing that is wrong.
"""
import argparse
import json
import os
import random
import select
import subprocess
import sys
import time

from lib.runner import Lost, Run

WORKER = os.path.abspath(os.path.join(os.environ.get("RSOCK_TEST_BIN", "build/bin"),
                                      "differ_worker"))
LIBRARY = os.path.abspath(os.environ.get("LIBRSOCK", "build/lib/librsock.so"))
TOOL = os.path.abspath(os.environ.get("RSOCK_TOOL", "build/bin/rsock"))
FLOW_S = 60  # longer than any flow takes on a busy machine
CONFIGS = ({}, {"RSOCK_RING_KB": "32"}, {"RSOCK_SPIN_US": "0"})


class Wrong(Exception):
    """Something happened that must not."""


class Pair(Run):
    """Two processes that last, and those that they fork."""

    def __init__(self, env, dice):
        super().__init__(WORKER, env, TOOL)
        self.dice = dice
        self.next, self.key, self.bytes = 2, 0, 0
        self.begin()

    def handle(self):
        self.next = self.next + 1 if self.next < 250 else 2
        return self.next

    def must(self, name, text, wanted):
        answer = self.call(name, text)[0]
        if wanted not in answer:
            raise Wrong(f"{name}: {text}: {answer}, and not {wanted}")

    def connection(self):
        """Makes a connection and uses it until it is promoted or nearly so; {"A": handle at A, "B":
        handle at B}.
        """
        one, two, first = self.handle(), self.handle(), self.dice.choice("AB")
        other = "B" if first == "A" else "A"
        answer = self.call(first, f"connect {one} {self.ports[other]}")[0]
        if answer.startswith("-1") or "-1" in answer:
            raise Wrong(f"connect: {answer}")
        self.must(other, f"accept {two} {'AB'.index(other)}", "fd=")
        ends = {first: one, other: two}
        for turn in range(8):
            for name, to in (("A", "B"), ("B", "A")):
                self.must(name, f"send {ends[name]} 2 64 0 0 {turn}", "64")
                self.must(to, f"recv {ends[to]} 2 64 256", "64 sum")
        return ends

    def start_flow(self, slot, sender, receiver, ends, size, key, pos):
        self.must(sender, f"async {slot} bsend {ends[sender]} {size} {key} {pos}", "begun")
        self.must(receiver, f"async {slot + 1} bcheck {ends[receiver]} {size} {key} {pos}", "begun")

    def join(self, name, slot, wanted):
        until = time.monotonic() + FLOW_S
        while True:
            answer = self.call(name, f"join {slot}")[0]
            if "HANG" not in answer:
                break
            if time.monotonic() > until:
                raise Wrong(f"{name}: a flow stands still: {answer}")
        if answer != wanted:
            raise Wrong(f"{name}: {answer}, and not {wanted}")

    def disturb(self, ends):
        """Does one thing that must not affect what is under way."""
        name = self.dice.choice("AB")
        what = self.dice.choice(("demote", "promote", "demote", "promote", "stop", "fork", "both"))
        if what == "stop":
            self.command(("stop", name))
            self.command(("cont", name))
        elif what == "fork":
            child = f"C{self.handle()}"
            self.command(("fork", name, child))
            self.sockets[child].send(b"exit 0")
            if not select.select([self.sockets[child]], [], [], FLOW_S)[0]:
                raise Wrong("a forked child does not end")
            self.sockets.pop(child).close()
            self.pids.pop(child)
        elif what == "both":
            for one in "AB":
                self.command(("operator", one, ends[one], "demote"))
        else:
            self.command(("operator", name, ends[name], what))

    def both_ways(self, ends):
        size, key = self.dice.choice((200_000, 2_000_000, 8_000_000)), self.key
        self.key += 2
        self.start_flow(0, "A", "B", ends, size, key, 0)
        self.start_flow(2, "B", "A", ends, size, key + 1, 0)
        for _ in range(self.dice.randrange(8)):
            self.disturb(ends)
        for slot, sender, receiver in ((0, "A", "B"), (2, "B", "A")):
            self.join(sender, slot, f"sent {size}")
            self.join(receiver, slot + 1, f"right {size}")
        self.bytes += 2 * size

    def change_hands(self, ends):
        """Bytes are unread when the end goes to another program or process."""
        name = self.dice.choice("AB")
        peer = "B" if name == "A" else "A"
        key, size = self.key, self.dice.choice((10, 4000, 20000))
        self.key += 1
        self.must(peer, f"send {ends[peer]} 0 {size} 0 {key} 0", str(size))
        what = self.dice.choice(("exec", "pass", "child", "fork"))
        if what == "exec":
            self.must_command(("exec", name), "executed")
        elif what == "pass":
            there = self.handle()
            self.must(name, f"pass {ends[name]} {name}", "1")
            self.must(name, f"take {there}", "fd=")
            self.must(name, f"close {ends[name]} 0 0", "0")
            ends[name] = there
        elif what == "child":
            self.must(name, f"child {ends[name]} 0 {self.dice.randrange(2)} r {size // 2}",
                      f"child {size // 2} ")
            self.must(name, f"bcheck {ends[name]} {size - size // 2} {key} {size // 2}",
                      f"right {size - size // 2}")
            return
        else:
            child = f"C{self.handle()}"
            self.must_command(("fork", name, child), "forked")
            self.must(child, f"bcheck {ends[name]} {size} {key} 0", f"right {size}")
            self.kill(child)
            return
        self.must(name, f"bcheck {ends[name]} {size} {key} 0", f"right {size}")
        self.bytes += size

    def must_command(self, command, wanted):
        answer = self.command(command)
        if wanted not in answer:
            raise Wrong(f"{command}: {answer}")

    def killed(self, ends):
        """A process is killed while it sends: what arrived before is right, then there is an end.
        """
        child = f"C{self.handle()}"
        self.must_command(("fork", "A", child), "forked")
        self.must("A", f"close {ends['A']} 0 0", "0")
        self.must(child, f"async 0 bsend {ends['A']} 50000000 {self.key} 0", "begun")
        self.must("B", f"bcheck {ends['B']} 300000 {self.key} 0", "right 300000")
        self.kill(child)
        answer = self.call("B", f"bcheck {ends['B']} 50000000 {self.key} 300000")[0]
        self.key += 1
        if "wrong" in answer or "right" not in answer or not answer.startswith(("0 ",
                                                                                "-1 ECONNRESET")):
            raise Wrong(f"after a kill: {answer}")
        self.must("B", f"close {ends['B']} 0 0", "0")

    def round(self):
        ends = self.connection()
        for _ in range(self.dice.randrange(1, 4)):
            self.both_ways(ends)
            self.change_hands(ends)
        if self.dice.random() < 0.3:
            self.killed(ends)
            return
        for name in self.dice.sample("AB", 2):
            self.must(name, f"close {ends[name]} {self.dice.choice((0, 2))} 0", "0")

    def resources(self):
        """What each of the two holds: its descriptors, and mappings of shared memory in bytes."""
        found = {}
        for name in "AB":
            base = f"/proc/{self.pids[name]}"
            shared = 0
            with open(base + "/maps", encoding="utf-8", errors="replace") as file:
                for line in file:
                    if "/memfd:" in line or "/dev/shm/" in line:
                        low, high = line.split()[0].split("-")
                        shared += int(high, 16) - int(low, 16)
            found[name] = (len(os.listdir(base + "/fd")), shared)
        return found


def tool_json():
    out = subprocess.run([TOOL, "stat", "--json"], capture_output=True, text=True, timeout=30,
                         check=False).stdout
    return json.loads(out)


def one_pair(env, dice, until):
    """Runs rounds of one pair until the time; returns how many, and how many bytes."""
    pids, rounds = set(), 0
    pair = Pair(env, dice)
    try:
        most = {name: (0, 0) for name in "AB"}
        while rounds < 8 or time.monotonic() < until:
            pair.round()
            pids |= set(pair.pids.values())
            rounds += 1
            # early rounds: the pair's link, its segments and the arena are made; a fork drops them
            if rounds <= 8:
                most = {name: tuple(map(max, most[name], has))
                        for name, has in pair.resources().items()}
        left = [s for s in tool_json()["streams"] if s["pid"] in pids and s["open"]]
        if left:
            raise Wrong(f"streams that nobody has any more: {left}")
        now = pair.resources()
        for name in "AB":
            # a link that is gone may not be freed yet
            if any(n > 2 * had for n, had in zip(now[name], most[name])):
                raise Wrong(f"{name} has (descriptors, bytes mapped) {now[name]}, in 8 rounds it "
                            f"had {most[name]} at the most")
        codes = pair.finish()
        if any(not word.endswith("=0") for word in codes.split()):
            raise Wrong(f"ends: {codes}")
        if any(p["pid"] in pids for p in tool_json()["processes"]):
            raise Wrong("a process that ended is still shown")
        return rounds, pair.bytes
    except (Lost, OSError) as error:
        raise Wrong(f"after {rounds} rounds: {error}") from error
    finally:
        pair.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--tcp", action="store_true",
                        help="without the library, as a check of the soak itself")
    args = parser.parse_args()
    end, seed = time.monotonic() + 60 * args.minutes, args.seed
    shm = set(os.listdir("/dev/shm"))
    rounds = moved = pairs = 0
    while not pairs or time.monotonic() < end:
        env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
        if not args.tcp:
            env.update(LD_PRELOAD=LIBRARY, RSOCK_EARN_CALLS="1", **CONFIGS[pairs % len(CONFIGS)])
        try:
            done, count = one_pair(env, random.Random(seed), min(end, time.monotonic() + 60))
        except Wrong as error:
            print(f"soak: seed {seed}, {CONFIGS[pairs % len(CONFIGS)]}: {error}")
            return 1
        rounds, moved, pairs, seed = rounds + done, moved + count, pairs + 1, seed + 1
    left = {name for name in set(os.listdir("/dev/shm")) - shm if "registry" not in name
            and "rsock" in name}
    if len(left) > 1:
        print(f"soak: left in /dev/shm: {sorted(left)}")
        return 1
    print(f"soak: {pairs} pairs, {rounds} rounds, {moved / 1e9:.2f} GB right at both ends; nothing "
          f"is left")
    return 0


if __name__ == "__main__":
    sys.exit(main())
