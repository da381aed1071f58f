#!/usr/bin/python3 -B
"""iperf3: bulk in one direction, in the other, in both, several streams, IPv6, sendfile, pacing."""
import json
import sys

from lib.harness import case, main


def iperf3(t, *options, host="127.0.0.1"):
    """One iperf3 run; returns its report and port."""
    port = t.free_port()
    server = t.spawn(["iperf3", "-s", "-1", "-p", port], name="server")
    t.listening(server, port)
    text = t.run(["iperf3", "-c", host, "-p", port, "-J", *options,
                  *([] if "-n" in options else ["-t", 2])], name="client", seconds=40)
    t.wait(server, 20)
    result = json.loads(text)
    t.check("error" not in result, f"iperf3 says: {result.get('error')}")
    return result["end"], port


def both_counts(t, end, sent="sum_sent", received="sum_received"):
    """Checks what the two ends counted: nothing may arrive that was not sent, and something must
    have moved.
    """
    t.check(end[sent]["bytes"] > 1 << 20, f"only {end[sent]['bytes']} bytes moved")
    t.check(end[received]["bytes"] <= end[sent]["bytes"],
            f"received {end[received]['bytes']} of {end[sent]['bytes']} sent")
    return end[received]["bytes"]


@case(60)
def upload(t):
    end, port = iperf3(t)
    t.stats.direct(port, to_server=both_counts(t, end))


@case(60)
def reverse(t):
    end, port = iperf3(t, "-R")
    t.stats.direct(port, to_client=both_counts(t, end))


@case(60)
def parallel(t):
    end, port = iperf3(t, "-P", 4)
    moved = both_counts(t, end)
    t.equal(len(end["streams"]), 4, "streams in the report")
    t.stats.direct(port, to_server=moved, streams=4)


@case(60)
def parallel_reverse(t):
    end, port = iperf3(t, "-P", 4, "-R")
    t.stats.direct(port, to_client=both_counts(t, end), streams=4)


@case(60)
def bidir(t):
    end, port = iperf3(t, "--bidir")
    up = both_counts(t, end)
    down = both_counts(t, end, "sum_sent_bidir_reverse", "sum_received_bidir_reverse")
    t.stats.direct(port, to_server=up, to_client=down, streams=2)


@case(60)
def ipv6(t):
    end, port = iperf3(t, "-6", host="::1")
    t.stats.direct(port, to_server=both_counts(t, end))


@case(60)
def sendfile(t):
    end, port = iperf3(t, "-Z")
    t.stats.direct(port, to_server=both_counts(t, end))


@case(60)
def small_writes(t):
    end, port = iperf3(t, "-l", 700, "-N")
    t.stats.direct(port, to_server=both_counts(t, end))


@case(60)
def paced(t):
    end, port = iperf3(t, "-b", "200M")
    moved = both_counts(t, end)
    t.check(30e6 < moved < 70e6, f"200 Mbit/s for 2 s moved {moved} bytes")
    t.stats.direct(port, to_server=moved)


@case(60)
def exact_amount(t):
    end, port = iperf3(t, "-n", "300M")
    t.check(end["sum_sent"]["bytes"] >= 300 << 20, f"sent {end['sum_sent']['bytes']}")
    t.stats.direct(port, to_server=both_counts(t, end))


@case(90)
def server_used_again(t):
    """One server, several tests one after the other, both directions."""
    port = t.free_port()
    server = t.listening(t.spawn(["iperf3", "-s", "-p", port], name="server"), port)
    moved = {"": 0, "-R": 0}
    for direction in ("", "-R", "", "-R"):
        text = t.run(["iperf3", "-c", "127.0.0.1", "-p", port, "-J", "-t", 1,
                      *filter(None, [direction])], seconds=30)
        moved[direction] += both_counts(t, json.loads(text)["end"])
        t.stats.sample()
    t.stop(server)
    t.stats.direct(port, to_server=moved[""], to_client=moved["-R"], streams=4)


if __name__ == "__main__":
    sys.exit(main())
