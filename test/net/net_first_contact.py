#!/usr/bin/python3
"""First contact: connect() asks for the policy before it connects. Aggregate addresses, and what
happens without an answer.
"""
import json
import os
import sys

from lib.harness import case, main
from netlab import HERE, Lab

SERVICE, AGGREGATE = 5201, "10.77.0.100"
EVERYTHING = [{"name": "everything"}]


class Asker:
    def __init__(self, host, preload=True):
        self.proc = host.run(["/usr/bin/python3", "-B", os.path.join(HERE, "prog", "asker.py")],
                             name="asker",
                             preload=preload, env={"RSOCK_DAEMON": host.local}, stdin="pipe",
                             stdout="pipe")
        self.hear()

    def hear(self):
        line = self.proc.stdout.readline()
        if not line:
            raise AssertionError(self.proc.err())
        return json.loads(line)

    def do(self, **order):
        self.proc.stdin.write(json.dumps(order).encode() + b"\n")
        return self.hear()

    def connect(self, address=AGGREGATE, port=SERVICE, **more):
        return self.do(do="connect", address=address, port=port, **more)


def asking(host, **more):
    return {"rnics": [{"name": "rnic0", "addresses": [host.ip, host.ip6]}],
            "services": [{"name": "any", "ports": ["1-65535"]}], "rules": EVERYTHING,
            "ask-first": ["10.77.0.96/29"], "ask-first-time": "2s", **more}


def serving(b, c, **service):
    return {"node": "b", "rnics": [{"name": "b0", "addresses": [b.ip]},
                                   {"name": "c0", "node": "c", "addresses": [c.ip]}],
            "aggregates": [{"address": AGGREGATE, "over": ["b0", "c0"], "choose": "order"}],
            "services": [{"name": "iperf", "ports": [str(SERVICE)], "rdma-port": "18000",
                          **service}],
            "rules": EVERYTHING}


def listen(*hosts):
    for host in hosts:
        host.run(["/usr/bin/python3", "-B", "-m", "http.server", "--bind", "::", str(SERVICE)],
                 name="server")


def cluster(t, listeners=(1, 2), service=None, **more):
    """Host a asks; host b answers for an aggregate address of its own, over itself and host c."""
    a, b, c = Lab(t, 3).hosts
    b.add_address(AGGREGATE)
    a.start(**asking(a, **more))
    b.start(**serving(b, c, **(service or {})))
    listen(*((a, b, c)[number] for number in listeners))
    plain = Asker(a, preload=False)
    for number in listeners:
        t.until(lambda to=(a, b, c)[number]: plain.connect(to.ip)["errno"] == 0, 20,
                "the servers to listen")
    return a, b, c


@case(timeout=60)
def goes_to_the_node_that_is_chosen(t):
    a, b, c = cluster(t)
    asker = Asker(a)
    t.equal(asker.connect()["peer"], b.ip, "the first of the aggregate's")
    b.post("/v1/drain", {"device": "b0"})
    t.equal(asker.connect()["peer"], c.ip, "the other node, for new ones")
    t.equal(asker.connect(wait=False)["peer"], c.ip, "a socket that does not block")
    t.equal(asker.connect(f"::ffff:{AGGREGATE}", family="inet6")["peer"], f"::ffff:{c.ip}",
            "an IPv6 socket")
    t.equal(Asker(a, preload=False).connect()["peer"], AGGREGATE,
            "a program that is not accelerated")
    t.equal(a.figure("local_asks_total"), 4, "questions")


@case(timeout=120)
def streams_stay_where_they_are(t):
    """When a node's RNIC is drained, new sessions go to the other node, and are refused when there
    is none; a stream that exists goes on at the node that it went to.
    """
    a, b, c = cluster(t, listeners=())
    client = a.peer()
    servers = [host.peer().listen(SERVICE) for host in (b, c)]
    streams = []

    def one_more(server, what):
        group = f"s{len(streams)}"
        client.connect(server, group=group, to=AGGREGATE)
        streams.append((group, server, what))
        for group, server, where in streams:
            t.equal(client.do("peers", group=group)["ips"], [where], "the node of a stream")
            client.ping(server, group=group)
            client.exchange(server, 100_000, group=group)
    one_more(servers[0], b.ip)
    b.post("/v1/drain", {"device": "b0"})
    one_more(servers[1], c.ip)
    b.post("/v1/drain", {"device": "c0"})
    t.equal(a.map(AGGREGATE, SERVICE, cp_port=1)["outcome"], "refused", "a new session")
    one_more(servers[0], AGGREGATE)  # as without rsockd


@case(timeout=60)
def others_are_not_asked_about(t):
    a, b, _c = cluster(t)
    asker = Asker(a)
    t.equal(asker.connect(b.ip)["peer"], b.ip, "an address that is on no list")
    t.equal(asker.connect(kind="udp")["peer"], AGGREGATE, "another protocol")
    t.equal(asker.connect(port=0)["errno"], "ECONNREFUSED", "no port")
    t.equal(a.figure("local_asks_total"), 0, "questions")


@case(timeout=60)
def denied(t):
    """A connection that is not mapped goes to its original address; so does one that is mapped to a
    host where no program listens.
    """
    a, b, c = cluster(t, listeners=(1,))
    asker = Asker(a)
    t.equal(asker.connect(port=SERVICE + 1)["errno"], "ECONNREFUSED", "a service that nobody knows")
    b.post("/v1/drain", {"device": "b0"})
    t.equal(asker.connect()["peer"], AGGREGATE, f"mapped to {c.ip}, which refuses")
    b.post("/v1/drain", {"device": "c0"})
    t.equal(asker.connect()["peer"], AGGREGATE, "no device is left")


@case(timeout=60)
def waits_for_a_bounded_time(t):
    a, b, _c = cluster(t, **{"ask-first-time": "300ms"})
    b.daemon.popen.kill()
    asker = Asker(a)
    answer = asker.connect()
    t.equal(answer["peer"], AGGREGATE, "nobody answers")
    t.check(0.29 < answer["took"] < 2, answer)
    t.until(lambda: a.counts("client")["unanswered"] == 1, 30, "the PM client to give up")
    answer = asker.connect()
    t.equal(answer["peer"], AGGREGATE, "still nobody")
    t.check(answer["took"] < 0.2, f"the host is remembered: {answer}")
    a.daemon.popen.kill()
    answer = asker.connect()
    t.equal(answer["peer"], AGGREGATE, "no rsockd at all")
    t.check(answer["took"] < 0.2, answer)


@case(timeout=60)
def names_are_asked_about_ahead(t):
    a, b, _c = cluster(t, service={"pm-time": "60s"})
    asker = Asker(a)
    asker.connect(b.ip)  # rsockd is found by the first connect(), or the first stream
    t.equal(asker.do(do="resolve", address=AGGREGATE, port=SERVICE)["found"], [AGGREGATE],
            "as ever")
    t.until(lambda: b.asked() == 1 and a.counts("client")["mapped"] == 1, 20,
            "it to be found out")
    t.equal(asker.connect()["peer"], b.ip, "connect()")
    t.equal((b.asked(), a.counts("client")["cached"]), (1, 1),
            "PMReq, answers from memory")


@case(timeout=60)
def a_reload_changes_the_list(t):
    a, b, _c = cluster(t)
    asker = Asker(a)
    t.equal(asker.connect()["peer"], b.ip, "on the list")
    a.write_config(**asking(a, **{"ask-first": ["10.78.0.0/16"]}))
    a.post("/v1/reload", {})
    t.until(lambda: asker.connect()["peer"] == AGGREGATE, 20, "the list to be another")
    a.write_config(**asking(a))
    a.post("/v1/reload", {})
    t.until(lambda: asker.connect()["peer"] == b.ip, 20, "the list to be what it was")


if __name__ == "__main__":
    sys.exit(main())
