#!/usr/bin/python3 -B
"""memcached with four threads: memcaslap with verification, and a client that checks each value."""
import re
import sys

from lib.harness import PROGRAMS, case, main


def start_server(t, preload=True):
    port = t.free_port()
    server = t.spawn(["memcached", "-u", "root", "-t", 4, "-l", "127.0.0.1", "-p", port, "-U", 0,
                      "-m", 2048, "-I", "4m"],
                     name="memcached", preload=preload)
    return t.listening(server, port), port


def memcaslap(t, port, *options):
    text = t.run(["memcaslap", "-s", f"127.0.0.1:{port}", "-T", 2, "-c", 16, "-t", "3s", "-v",
                  "0.3", *options],
                 name="memcaslap")
    numbers = {name: int(value) for name, value in re.findall(r"^(\w+): (\d+)", text, re.M)}
    t.check(numbers["cmd_get"] > 1000 and numbers["cmd_set"] > 1000, f"memcaslap: {numbers}")
    for name in ("get_misses", "verify_misses", "verify_failed"):
        t.equal(numbers[name], 0, f"memcaslap: {name}")
    return numbers


@case(60)
def load_verified(t):
    server, port = start_server(t)
    numbers = memcaslap(t, port)
    t.stop(server)
    t.stats.direct(port, to_server=numbers["written_bytes"], to_client=numbers["read_bytes"],
                   streams=16)


@case(60)
def load_binary(t):
    server, port = start_server(t)
    numbers = memcaslap(t, port, "-B", "-d", 4)
    t.stop(server)
    t.stats.direct(port, to_server=numbers["written_bytes"], streams=16)


@case(90)
def contents(t):
    """8 threads of a Python client set, get and multi-get values of 1 B to 3 MB and compare them.
    """
    server, port = start_server(t)
    text = t.run(["/usr/bin/python3", "-B", f"{PROGRAMS}/memcached_client.py", port],
                 name="client")
    t.equal(text.split()[0], "right", "the client's verdict")
    moved = int(text.split()[1])
    t.stop(server)
    t.stats.direct(port, to_server=moved, to_client=moved, streams=8)


if __name__ == "__main__":
    sys.exit(main())
