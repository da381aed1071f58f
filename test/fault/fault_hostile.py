#!/usr/bin/python3 -B
"""A hostile peer, paired or only connected to the listener: it harms no process but itself."""
import os
import random
import sys
import time

from lib.harness import case, main

SECONDS = float(os.environ.get("RSOCK_HOSTILE_SECONDS", "6"))


def ticks(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def attack(t, how, hostile_words, preload_hostile, longer=0):
    """longer: seconds by which the hostile one outlives the honest ones; without them its end would
    hide that it held the victim up.
    """
    seed = int(os.environ.get("RSOCK_SEED", random.getrandbits(32)))
    print(f"{t.name}: RSOCK_SEED={seed}")
    program = os.path.join(t.bin, "fault_hostile")
    log = t.path(f"victim-{how}.log")
    victim = t.spawn([program, "serve", how], name=f"victim-{how}", stdin="pipe", stdout="pipe",
                     env={"RSOCK_LOG": "error", "RSOCK_LOG_FILE": log})
    port = int(victim.stdout.readline())
    honest = [t.spawn([program, "honest", port, SECONDS, seed + number], name="honest")
              for number in range(2)]
    words = [port if word == "PORT" else victim.pid if word == "PID" else word
             for word in hostile_words]
    hostile = t.spawn([program, words[0], words[1], SECONDS - 1 + longer, seed], name="hostile",
                      preload=preload_hostile)
    began = time.monotonic()
    deadline = began + SECONDS + longer + 15
    while any(proc.popen.poll() is None for proc in honest + [hostile]):
        t.check(victim.popen.poll() is None,
                f"{victim.describe()}: ended with {victim.popen.poll()}")
        t.check(time.monotonic() < deadline, "the clients did not come to their end")
        held_up = (longer and time.monotonic() > began + SECONDS + longer - 2
                   and honest[0].popen.poll() is None)
        t.check(not held_up, f"{how}: the victim is held up as long as the hostile one lives")
        t.stats.sample()
        time.sleep(0.05)
    for proc in honest + [hostile]:
        t.wait(proc, 5)
    rounds = [int(proc.out()) for proc in honest]
    print(f"{t.name}: honest rounds {rounds}, hostile {hostile.out().strip()}")
    t.check(min(rounds) > 500, f"honest clients were held up: {rounds} rounds")
    # All clients are gone: the victim must be idle.
    before = ticks(victim.pid)
    time.sleep(1)
    t.check(ticks(victim.pid) - before < 0.2, f"{how}: the victim is busy with nobody there")
    # The victim must serve a new client.
    fresh = t.spawn([program, "honest", port, 1, seed + 9], name="fresh")
    t.wait(fresh, 15)
    held = len(os.listdir(f"/proc/{victim.pid}/fd"))
    print(f"{t.name}: the victim holds {held} descriptors")
    # After more than a thousand connects: two rounds of 16 pending peers, whose ends are noticed in
    # the next round, with ten descriptors each.
    t.check(held < 400, f"the victim holds {held} descriptors")
    pids = {proc.pid for proc in honest}
    direct = [stream for stream in t.stats.streams.values()
              if stream.pid in pids and stream.tx_ring_bytes and stream.rx_ring_bytes]
    t.stats.demand(direct, "no honest stream went direct")
    victim.stdin.close()
    t.wait(victim, 10)
    noted = ""
    if os.path.exists(log):  # the log is made with its first line
        with open(log) as file:
            noted = file.read()
    print(f"{t.name}: noted by the victim: {noted.count('refused')} messages refused, "
          f"{noted.count('broke the rules')} streams ended")
    return noted


@case(60)
def scribbling_peer(t):
    """A paired peer overwrites all shared memory: its own and the victim's segment."""
    noted = [attack(t, how, ("scribble", "PORT"), True) for how in ("block", "poll", "epoll")]
    t.stats.demand("broke the rules" in "".join(noted),
                   "no stream of the victim's was hit: did the scribbler join?")


@case(90)
def spoiled_doorbells(t):
    """A paired peer fills, empties, blocks and rings every doorbell that it can reach, and never
    wakes up again.
    """
    for how in ("block", "poll", "epoll", "select"):
        attack(t, how, ("doorbells", "PORT"), True)


@case(60)
def unknown_peer_of_the_listener(t):
    """Anything at all on the control socket: sizes, magics, descriptors, messages, floods."""
    for how in ("poll", "epoll"):
        noted = attack(t, how, ("control", "PID"), False)
        t.stats.demand("refused" in noted, "the victim refused nothing: was it spoken to?")


@case(90)
def slow_descriptors(t):
    """Descriptors whose close() takes a minute, at expected places and at others, of the same user
    and of another.
    """
    for how, words in (("poll", "slow"), ("epoll", "slow"), ("block", "slow-other")):
        noted = attack(t, how, (words, "PID"), False, longer=6)
        t.stats.demand(words != "slow" or "refused" in noted,
                       "the victim refused nothing: was it spoken to?")


if __name__ == "__main__":
    sys.exit(main())
