#!/usr/bin/python3 -B
"""rsock top and rsock stat --interval: rates of live streams, in batches and on a terminal."""
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import termios
import time

from lib.harness import Failure, case, main
from tool import ask, ask_json, busy_client, redis, says, until_reason


def traffic(t):
    server, port = redis(t)
    client = busy_client(t, port)
    until_reason(t, server.pid, "direct")
    until_reason(t, client.pid, "direct")
    return server, client


@case(60)
def batches(t):
    server, client = traffic(t)
    lines = ask(t, "top", "--json", "-n", 2, "-d", "0.3").out().splitlines()
    t.equal(len(lines), 2, "tables")
    for line in lines:
        told = json.loads(line)
        rows = {row["pid"]: row for row in told["streams"]}
        for pid in (server.pid, client.pid):
            t.check(rows[pid]["tx_bytes_s"] > 0 and rows[pid]["rx_bytes_s"] > 0,
                    f"no rate: {rows[pid]}")
            t.equal((rows[pid]["tx"], rows[pid]["rx"], rows[pid]["reason"]),
                    ("ring", "ring", "direct"), "row")
        t.check(told["ring_bytes_s"] > 0 and told["accelerated"] >= 2, f"sums: {line}")
    text = ask(t, "top", "-b", "-n", 1, "-d", "0.2", "--pid", server.pid).out()
    says(t, text, "1 streams, 1 accelerated", "SEND/s", "redis-server")
    t.check("redis-benchmark" not in text, f"more than was asked for:\n{text}")
    for words in (["--sort", "x"], ["-n", "0"], ["-d", "x"], ["-d"], ["word"], ["--pid", "0"]):
        ask(t, "top", *words, expect=2)
    ask(t, "top", expect=4)  # no terminal


@case(60)
def rates_and_both_ends(t):
    server, client = traffic(t)
    told = ask_json(t, "stat", "--interval", "0.3", "--pid", server.pid)
    stream = [stream for stream in told["streams"] if stream["open"] and stream["local"] != "-"][0]
    t.check(stream["rates"]["tx_ring_bytes_s"] > 0 and stream["rates"]["rx_ring_bytes_s"] > 0,
            f"no rate: {stream}")
    t.equal(stream["rates"]["tx_tcp_bytes_s"], 0, "by TCP")
    t.equal((stream["other_end"]["pid"], stream["other_end"]["reason"]), (client.pid, "direct"),
            "other end")
    t.equal((stream["fabric"], stream["device"]), ("shm", ""), "by what its ring goes")
    t.equal(stream["tx_rail_bytes"], [0, 0, 0, 0],
            "by rails, of which there are none within a host")
    table = ask(t, "stat", "--interval", "0.2").out()
    says(t, table, "SEND/s", "FABRIC", " shm ", "redis-server")
    t.check("by rails" not in table, f"rails within a host:\n{table}")
    t.check("rates" not in ask(t, "stat", "--json").out(), "rates need two looks")


def read_until(t, terminal, wanted, seconds=20):
    """What the terminal received, until it has all of these."""
    text, deadline = "", time.monotonic() + seconds
    while not all(want in text for want in wanted):
        ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            raise Failure(f"the terminal never showed {wanted}: {text!r}")
        try:
            text += os.read(terminal, 65536).decode(errors="replace")
        except OSError:
            raise Failure(f"the terminal closed before {wanted}: {text!r}") from None
    return text


def screen(t, *words):
    """Runs the tool on a terminal of its own; returns the process and the terminal's other end."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 150, 0, 0))
    env = {**os.environ, "TERM": "xterm"}
    env.pop("LD_PRELOAD", None)
    proc = subprocess.Popen([t.tool, "top", *words], stdin=slave, stdout=slave, stderr=slave,
                            env=env)
    os.close(slave)
    return proc, master


@case(60)
def a_screen(t):
    traffic(t)
    proc, terminal = screen(t, "-d", "0.3")
    read_until(t, terminal,
               ["streams,", "q quit", "REASON", "redis-server", "redis-benchmark", "direct"])
    # Only changes are sent to the terminal: sorted by process, the two lines never change places.
    os.write(terminal, b"w\x1b[B\x1b[A \x1b[5~xp")
    read_until(t, terminal, ["\x1b["])
    os.write(terminal, b"q")
    t.equal(proc.wait(timeout=20), 0, "exit status after q")
    os.close(terminal)
    proc, terminal = screen(t, "-d", "0.2", "-n", "2", "--sort", "reason")
    read_until(t, terminal, ["redis-server"])
    t.equal(proc.wait(timeout=20), 0, "exit status after two tables")
    os.close(terminal)
    proc, terminal = screen(t, "-d", "3600")
    read_until(t, terminal, ["redis-server"])
    proc.terminate()
    t.equal(proc.wait(timeout=20), 0, "exit status after SIGTERM")
    os.close(terminal)


if __name__ == "__main__":
    raise SystemExit(main())
