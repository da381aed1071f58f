#!/usr/bin/python3
"""Rules of the policy agent that depend on the time, and on what is measured: transactions, the
round trip to a peer; and a service that carries too little.
"""
import re
import sys
import time

from lib.harness import case, main
from net_hotplug import events
from net_rsockd import SERVICE, asking, serving
from netlab import Lab

DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


def steps(host, **question):
    answer = host.post("/v1/explain", question)
    return answer["verdict"], "\n".join(answer["steps"])


@case(timeout=90)
def no_more_transactions_than_that(t):
    """By the statistics of streams: of many that stay on TCP, and of one that is on the ring."""
    (a,) = Lab(t, 1).hosts
    a.start(**serving(a, rules=[{"name": "calm", "side": "ap",
                                 "when": {"transactions-per-second-below": "20"}},
                                {"name": "out", "side": "cp"}]))
    number = iter(range(1, 60000))
    server, client, other = a.peer().listen(SERVICE), a.peer(), a.peer(preload=False)
    client.connect(server)

    def verdict():
        return steps(a, side="ap", ip=a.ip, port=SERVICE)

    def told():
        return {side: float(rate) for side, rate in
                re.findall(r'rsockd_service_transactions_per_second\{service="iperf",'
                           r'side="(..)",user="0"\} (\S+)', a.get("/metrics"))}

    def one_stream():
        for _ in range(100):
            client.exchange(server, 100)
        return told()["cp"] > 10

    def many_streams():
        for _ in range(20):
            other.connect(server, group="other")
            for _ in range(5):
                other.exchange(server, 100, group="other")
            for end in (other, server):
                end.do("close", group="other")
        return verdict()[0] != "map"
    for _ in range(40):
        a.map(a, SERVICE, cp_port=next(number))
    t.equal(verdict()[0], "map", "requests of mappings are no transactions")
    t.check(re.search(r'rsockd_service_decisions_per_second\{service="iperf",side="ap"\} \d',
                      a.get("/metrics")), "the rate of decisions is told")
    t.until(many_streams, 30, "too many transactions")
    verdict_now, text = verdict()
    t.check("transactions-per-second-below 20: the service has" in text, f"{verdict_now}: {text}")
    t.equal(a.map(a, SERVICE, cp_port=next(number))["outcome"], "refused", "a new session")
    t.check(told()["ap"] > 20 and told()["cp"] < 0.001, told())
    t.until(one_stream, 30, "its transactions on both sides")
    t.check(told()["ap"] > 30, told())


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
    t.equal(b.asked(), 1, "no PMReq")
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


@case(timeout=90)
def a_service_carries_too_little(t):
    """Its real transactions, between processes of this host: too few, then enough."""
    a, b = Lab(t, 2).hosts
    services = [{"name": "low", "ports": [str(SERVICE + 1)], "priority": 1},
                {"name": "main", "ports": [str(SERVICE)], "priority": 5,
                 "transactions-wanted": 100}]
    b.start(**serving(b, services=services, overload={"refuse-below-priority": 2}))
    a.start(**asking(a))
    server, client = b.peer().listen(SERVICE), b.peer()
    client.connect(server)
    number = iter(range(1, 1000))

    def heard():
        return events(b)["service-below"], events(b)["service-relief"]

    def low():
        return a.map(b, SERVICE + 1, cp_port=next(number))["outcome"]

    def carry(at_once, until):
        """Exchanges by the tenth of a second, until that is heard."""
        def some():
            for _ in range(at_once):
                client.exchange(server, 100)
            return heard() == until
        t.until(some, 30, f"events {until}")
    t.equal(low(), "mapped", "before")
    carry(4, (1, 0))
    t.equal((low(), heard()), ("refused", (1, 0)), "while it carries too little")
    t.check("rsockd_node_overloaded 1" in b.get("/metrics"), "the metrics")
    carry(100, (1, 1))
    t.equal(low(), "mapped", "when it carries enough")
    t.equal(b.daemon.err().splitlines(),
            ["rsockd: main carries fewer transactions than wanted",
             "rsockd: this node has too much to do",
             "rsockd: main carries what is wanted, or is idle",
             "rsockd: this node has less to do again"], "the log")


if __name__ == "__main__":
    sys.exit(main())
