#!/usr/bin/python3 -B
"""The differential fuzzer: random programs on kernel TCP and with librsock; their answers must be
the same.

differ.py --seeds 1..200 [--jobs 2] [--seconds 50]      runs seeds; ends with 1 if one differs
differ.py --seeds 77 --show                             one program, its answers on both, and no
                                                        shrinking

Each seed runs twice on kernel TCP: if its answers differ there already that is a defect of the
fuzzer, and counted. A program whose answers differ with the library is shrunk to the fewest steps
that still show it.
"""
import argparse
import json
import multiprocessing
import os
import re
import sys
import time

from generate import program_of
from known import KNOWN, SEEDS
from lib.runner import run_commands
from model import CONFIGS, Model

WORKER = os.path.join(os.environ.get("RSOCK_TEST_BIN", "build/bin"), "differ_worker")
LIBRARY = os.environ.get("LIBRSOCK", "build/lib/librsock.so")
# Set where other threads of the process have descriptors of their own: what a device's library
# opens gets low numbers.
ANY_NUMBERS = "DIFFER_ANY_NUMBERS" in os.environ
# Set where an answer that is EAGAIN, or poll's, may become the right one a little later.
LATE = "DIFFER_LATE" in os.environ
TOOL = os.environ.get("RSOCK_TOOL", "build/bin/rsock")
AGAIN = 3      # a difference counts when it shows in two of so many runs
SHRINK_S = 60  # at most, for one seed


def lower(program, seed, known):
    """The commands of a program, and its steps without those that may not be taken."""
    model = Model(known, seed)
    commands, kept = [], []
    for step in program:
        try:
            found = model.lower(step)
        except KeyError:
            found = None
        if found is not None:
            kept.append(step)
            commands += found
    return commands, kept


def environment(preload, seed):
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    env.update((name, value) for name, value in os.environ.items() if name.startswith("DIFFER_"))
    if preload:
        env.update((name, value) for name, value in os.environ.items() if name.startswith("RSOCK_"))
        env.update(LD_PRELOAD=os.path.abspath(LIBRARY), RSOCK_EARN_CALLS="1",
                   **CONFIGS[seed % len(CONFIGS)])
    return env


def plain(commands, seed, trace=None):
    return run_commands(commands, os.path.abspath(WORKER), environment(False, seed), None, trace)[0]


def preloaded(commands, seed, trace=None, right=None):
    return run_commands(commands, os.path.abspath(WORKER), environment(True, seed),
                        os.path.abspath(TOOL), trace,
                        right if LATE and right and len(right) > len(commands) else None)


def first_difference(one, two):
    if ANY_NUMBERS:
        one, two = ([re.sub(r"fd=\d+", "fd", answer) for answer in answers]
                    for answers in (one, two))
    for at, (a, b) in enumerate(zip(one, two)):
        if a != b:
            return at
    return None if len(one) == len(two) else min(len(one), len(two))


def streams_of(stat):
    """How many streams there were, and how many of them have been on the ring."""
    found = promoted = 0
    for line in stat.splitlines():
        try:
            for stream in json.loads(line).get("streams", []):
                found += 1
                promoted += bool(stream.get("tx_ring_bytes") or stream.get("rx_ring_bytes"))
        except (ValueError, AttributeError):
            continue
    return found, promoted


def differs(program, seed, known, times=1, needed=1):
    """The commands, both answers and where they differ first; None if they do not. A difference
    does not count where kernel TCP's own runs differ.
    """
    commands, _ = lower(program, seed, known)
    right = plain(commands, seed)
    seen = None
    for left in range(times, 0, -1):
        wrong, _ = preloaded(commands, seed, right=right)
        at = first_difference(right, wrong)
        if at is not None:
            if first_difference(right, plain(commands, seed)) is not None:
                return None
            seen, needed = (commands, right, wrong, at), needed - 1
        if needed <= 0 or needed > left - 1:
            break
    return seen if needed <= 0 else None


def shrink(program, seed, known, until):
    """Removes steps as long as the rest still differs."""
    found = differs(program, seed, known, AGAIN)
    if not found:
        return program, None
    size = max(1, len(program) // 2)
    while size and time.monotonic() < until:
        at, dropped = 0, False
        while at < len(program) and time.monotonic() < until:
            less = lower(program[:at] + program[at + size:], seed, known)[1]
            seen = differs(less, seed, known, 2) if len(less) < len(program) else None
            if seen:
                program, found, dropped = less, seen, True
            else:
                at += size
        size = size // 2 if size > 1 or not dropped else 1
    return program, found


def describe(command):
    if command[0] == "op":
        return f"{command[1]}: {command[2]}"
    if command[0] == "connect":
        return f"{command[1]}: connect {command[2]} to the listener of {command[3]}"
    return f"{command[1]}: {command[0]} {' '.join(map(str, command[2:]))}"


def report(seed, program, found):
    lines = [f"seed {seed}: {len(program)} steps, config {CONFIGS[seed % len(CONFIGS)]}"]
    commands, right, wrong, at = found
    lines += [f"  step {step}" for step in program]
    small = 0
    for number, command in enumerate(commands + [("end", "-")]):
        if number < at and command[0] == "op" and command[2].split()[0] in ("send", "recv") and \
                number >= 4 and all(c[0] == "op" and c[2].split()[0] in ("send", "recv")
                                    for c in commands[number - 4:number + 5]):
            small += 1
            continue
        if small:
            lines.append(f"   ... {small} sends and receives of a few bytes")
            small = 0
        a = right[number] if number < len(right) else "(not reached)"
        b = wrong[number] if number < len(wrong) else "(not reached)"
        mark = "  " if a == b else "!!"
        lines.append(f"{mark} {describe(command)}  ->  {a}" +
                     ("" if a == b else f"   LIBRARY: {b}"))
        if number >= at:
            break
    return "\n".join(lines)


def one_seed(job):
    """(seed, verdict, text, streams, promoted, commands)"""
    seed, known, shrinking = job
    program = program_of(seed, known)
    commands, _ = lower(program, seed, known)
    right = plain(commands, seed)
    again = plain(commands, seed)
    at = first_difference(right, again)
    lost = len(right) <= len(commands) or any("HANG" in answer or "of -" in answer
                                              for answer in right)
    if at is None and lost:
        at = len(right) - 1
    if at is not None:
        command = describe(commands[at]) if at < len(commands) else "the end"
        return (seed, "fuzzer", f"seed {seed}: kernel TCP by itself: {command}: {right[at:at+1]} "
                                f"{again[at:at+1]}", 0, 0, 0)
    wrong, stat = preloaded(commands, seed, right=right)
    found, promoted = streams_of(stat)
    at = first_difference(right, wrong)
    if at is None:
        return seed, "same", "", found, promoted, len(commands)
    seen = (commands, right, wrong, at)
    if shrinking:
        less, again = shrink(program, seed, known, time.monotonic() + SHRINK_S)
        if not again:
            again = differs(program, seed, known, 20)
            return (seed, "different" if again else "once", report(seed, program, again or seen),
                    found, promoted, len(commands))
        program, seen = less, again
    return seed, "different", report(seed, program, seen), found, promoted, len(commands)


def show(seed, known):
    commands, kept = lower(program_of(seed, known), seed, known)
    for step in kept:
        print("step", step)
    for how, run in (("kernel TCP", plain), ("librsock", preloaded)):
        print("==", how)
        run(commands, seed,
            lambda command, answer: print(f"  {describe(command)}  ->  {answer}", flush=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1..40",
                        help="N, or FIRST..LAST; FIRST.. goes on until it is ended")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0, help="begin no seed after so long")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--no-known", action="store_true", help="also calls whose faults are known")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--fail-fast", action="store_true")
    args = parser.parse_args()
    known = () if args.no_known else tuple(KNOWN)
    first, dots, last = args.seeds.partition("..")
    if args.show:
        show(int(first), known)
        return 0
    begun = time.monotonic()
    count = {"same": 0, "different": 0, "once": 0, "fuzzer": 0, "known": 0}
    streams = ring = calls = 0

    def jobs():
        seed, end = int(first), int(last) if last else (None if dots else int(first))
        while (end is None or seed <= end) and (not args.seconds
                                                or time.monotonic() - begun < args.seconds):
            if dots and not args.no_known and seed in SEEDS:
                count["known"] += 1
            else:
                yield seed, known, not args.no_shrink
            seed += 1

    with multiprocessing.Pool(args.jobs) as pool:
        source = jobs()
        # One seed at a time for each process of the pool: the source may end by the clock.
        waiting = []
        while True:
            while len(waiting) < args.jobs and (job := next(source, None)):
                waiting.append(pool.apply_async(one_seed, (job,)))
            if not waiting:
                break
            done = [item for item in waiting if item.ready()] or [waiting[0]]
            for item in done:
                waiting.remove(item)
                seed, verdict, text, found, promoted, commands = item.get()
                count[verdict] += 1
                streams, ring, calls = streams + found, ring + promoted, calls + commands
                if text:
                    print(f"{verdict}: {text}", flush=True)
            if args.fail_fast and count["different"]:
                break
    took = time.monotonic() - begun
    print(f"{sum(count.values()) - count['known']} seeds in {took:.0f} s "
          f"({60 * (sum(count.values()) - count['known']) / took:.0f} a minute), {calls} calls, "
          f"{ring} of {streams} streams on the ring: {count['same']} the same, "
          f"{count['different']} different, "
          f"{count['once']} different once, {count['fuzzer']} not deterministic on kernel TCP; "
          f"{count['known']} seeds not run, as known.py says; known and left out: "
          f"{', '.join(known) or 'nothing'}")
    if not ring:
        print("no stream was on the ring: nothing has been compared")
        return 1
    return 1 if count["different"] or count["once"] or count["fuzzer"] else 0


if __name__ == "__main__":
    sys.exit(main())
