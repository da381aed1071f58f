#!/usr/bin/python3
"""Rules of the policy agent that depend on the time, and on what is measured: transactions, the
round trip to a peer.
"""
import re
import sys
import time

from lib.harness import case, main
from net_rsockd import SERVICE, asking, serving
from netlab import Lab

DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


def steps(host, **question):
    answer = host.post("/v1/explain", question)
    return answer["verdict"], "\n".join(answer["steps"])


@case(timeout=60)
def by_the_time_of_the_week(t):
    (a,) = Lab(t, 1).hosts
    # Three days from now is another day in every time zone, however long this takes.
    other = DAYS[(time.localtime().tm_wday + 3) % 7]
    a.start(**serving(a, rules=[{"name": "another-day", "when": {"time": [other]}}]))
    question = {"side": "ap", "ip": a.ip, "port": SERVICE, "from": a.ip}
    verdict, text = steps(a, **question)
    t.equal(verdict, "no-rule", text)
    said = re.search(r"time: it is (\w{3}) (\d\d):(\d\d)", text)
    t.check(said, text)
    now = time.localtime()
    minutes = (DAYS.index(said[1]) -
               now.tm_wday) * 1440 + (int(said[2]) - now.tm_hour) * 60 + int(said[3]) - now.tm_min
    t.check(minutes % 10080 in (0, 10079), f"it is {said[0]}, the local time of the host")
    a.write_config(**serving(a, rules=[{"name": "but-for-that-day",
                                        "when": {"not": {"time": [other]}}}]))
    a.post("/v1/reload", {})
    t.equal(steps(a, **question)[0], "map", "the contrary")


@case(timeout=60)
def no_more_transactions_than_that(t):
    (a,) = Lab(t, 1).hosts
    a.start(**serving(a, rules=[{"name": "calm", "side": "ap",
                                 "when": {"transactions-per-second-below": "1"}},
                                {"name": "out", "side": "cp"}]))
    # Counts are forgotten within seconds, and each request takes a few milliseconds.
    number = iter(range(1, 60000))
    t.until(lambda: a.map(a, SERVICE, cp_port=next(number))["outcome"] == "refused", 30,
            "too many transactions")
    verdict, text = steps(a, side="ap", ip=a.ip, port=SERVICE)
    t.check(verdict == "map" or "transactions-per-second-below 1: the service has" in text, text)
    t.check(re.search(r'rsockd_service_decisions_per_second\{service="iperf",side="ap"\} \d',
                      a.get("/metrics")),
            "the rate is told")
    # Requests of a client that goes on are refused, and count as well; explain does not count.
    t.until(lambda: steps(a, side="ap", ip=a.ip, port=SERVICE)[0] == "map", 30,
            "it to be calm again")
    t.equal(a.map(a, SERVICE, cp_port=next(number))["outcome"], "mapped", "calm again")


@case(timeout=60)
def a_way_that_is_too_long(t):
    """No round trip takes less than a microsecond: the first question is asked, since nothing is
    known yet, and the next is not.
    """
    a, b, central = Lab(t, 3).hosts
    a.start(**asking(a, client={"rtt-time": "2s"},
                     rules=[{"name": "near", "when": {"rtt-below": "1us"}}]))
    b.start(**serving(b))
    t.equal(a.map(b, SERVICE, cp_port=1)["outcome"], "mapped", "the way is not known")
    answer = a.map(b, SERVICE, cp_port=2)
    t.equal((answer["outcome"], answer["verdict"]), ("not-asked", "not-worth"), answer)
    t.equal(b.counts()["requests"], 1, "no PMReq")
    verdict, text = steps(a, side="cp", ip=b.ip, port=SERVICE)
    t.equal(verdict, "not-worth", text)
    t.check(re.search(r"rtt-below 1 us: the way to the peer takes \d+ us", text), text)
    t.check(re.search(r'policy_verdicts_total\{verdict="not-worth"\} [1-9]', a.get("/metrics")),
            "it is counted")
    t.equal(steps(b, side="ap", ip=b.ip, port=SERVICE)[0], "map", "the AP's side knows of no way")
    t.until(lambda: a.map(b, SERVICE, cp_port=3)["outcome"] == "mapped", 20,
            "the measurement to be too old")
    # Through a central PMSP the round trip to the host itself is never measured.
    central.start(node="central",
                  rnics=[{"name": "b0", "node": "host2", "addresses": ["10.77.1.1"]}],
                  aggregates=[{"address": b.ip, "over": ["b0"]}],
                  services=[{"name": "iperf", "ports": [str(SERVICE)], "rdma-port": "18000"}])
    t.stop(a.daemon)
    a.start(**asking(a, client={"central": f"{central.ip}:3935"},
                     rules=[{"name": "near", "when": {"rtt-below": "1us"}}]))
    for number in (4, 5):
        t.equal(a.map(b, SERVICE, cp_port=number)["outcome"], "mapped", "by the central PMSP")


@case(timeout=120)
def streams_that_are_too_short(t):
    """By the statistics of the processes that connect, for streams of either path."""
    a, b = Lab(t, 2).hosts
    rules = [{"name": "long", "when": {"stream-bytes-at-least": "20000"}}]
    a.start(rnics=[{"name": "rnic0", "addresses": [a.ip]}],
            services=[{"name": "some", "ports": [str(SERVICE)]}], rules=rules)
    server, client = b.peer(preload=False).listen(SERVICE), a.peer()

    def streams(n, size):
        for number in range(n):
            client.connect(server, group=f"g{number}")
            client.exchange(server, size, group=f"g{number}")
            for end in (client, server):
                end.do("close", group=f"g{number}")

    def verdict():
        return a.post("/v1/explain", {"ip": b.ip, "port": SERVICE})["verdict"]
    t.equal(verdict(), "map", "nothing is known: nothing speaks against it")
    # Only a sample of the streams is measured: a freed record is soon used by another stream.
    t.until(lambda: streams(10, 500) or verdict() == "not-worth", 30, "short ones to be measured")
    t.until(lambda: streams(10, 20000) or verdict() == "map", 60, "long ones to be measured")


if __name__ == "__main__":
    sys.exit(main())
