#!/usr/bin/python3
"""A central PMSP of a cluster: it sends requests for services that it does not have to the host
that offers them, as the hosts have told by their entries in a real etcd.
"""
import json
import signal
import sys

import pm
from etcdlab import PREFIX, Etcd
from lib.harness import case, main
from net_first_contact import Asker
from net_members import LEASE_S, member, registered
from net_rsockd import EVERYTHING, FIXED, SERVICE, asking, serving
from net_services import AGGREGATE, count, good, in_sync, knows, of, serve, services
from netlab import Lab


def central_cluster(t, aps=2, **more):
    """Host 1 asks a central PMSP, which has no service of its own; the next ones are AP; and etcd
    is on the last one.
    """
    lab = Lab(t, aps + 3)
    a, central, *others, last = lab.hosts
    etcd = Etcd(last)
    a.start(**asking(a, client={"central": f"{central.ip}:3935", "silent-time": "0s"}))
    central.start(cluster={"etcd": [etcd.url], "prefix": PREFIX, "lease": f"{LEASE_S}s",
                           "redirect": True, **more},
                  rules=EVERYTHING)
    for host in others:
        host.start(**member(host, etcd.url, **{"redirects-from": [f"{central.ip}/32"]}, aggregates=[
            {"address": AGGREGATE, "over": ["rnic0"]}]))
    return etcd, a, central, *others


@case(timeout=90)
def a_central_pmsp_knows_who_offers_it(t):
    etcd, a, central, b, c = central_cluster(t)
    t.equal(a.map(b, SERVICE)["outcome"], "refused", "nobody offers it: a denial, and at once")
    serve(b)
    serve(c, at=c.ip)
    knows(t, central, of(b), {("host4", c.ip, SERVICE), ("host3", AGGREGATE, SERVICE)})
    answer = a.map(b, SERVICE, cp_port=1)
    t.equal((answer["outcome"], answer["rdma"]), ("mapped", {"ip": b.ip, "port": FIXED}), answer)
    t.equal(answer["asked"]["ip"], central.ip, "who was asked")
    t.equal(a.map(c, SERVICE, cp_port=2)["rdma"]["ip"], c.ip, "of the other host")
    t.equal((central.counts()["accepts"], count(central, "referred")), (0, 2), "the central one")
    t.equal((b.counts()["accepts"], c.counts()["accepts"]), (1, 1), "those that have answered")
    t.equal(a.map(c, SERVICE + 1, cp_port=3)["outcome"], "refused", "a port that nobody offers")
    # etcd is away: what was seen last holds.
    etcd.kill()
    in_sync(t, central, False)
    t.equal(a.map(b, SERVICE, cp_port=4)["outcome"], "mapped", "without etcd")
    etcd.start()
    in_sync(t, central)
    registered(t, b)
    t.stop(b.daemon, signal.SIGTERM)
    knows(t, central, {("host4", c.ip, SERVICE)})
    t.equal(a.map(b, SERVICE, cp_port=5)["outcome"], "refused", "a host that has ended")
    t.equal(b.daemon.popen.returncode, 0, "its exit status")


def answer(t, client, cp_port, handle=None):
    """The answer to a request for the aggregate address, and to no other: a PMAccept that is not
    acknowledged may come again.
    """
    handle = handle or client.handle()
    client.send(pm.REQ, AGGREGATE, SERVICE, cp_port, handle)
    while True:
        said = client.hear()
        t.check(said, "an answer")
        if said["handle"] == handle:
            return said


@case(timeout=90)
def an_address_of_several_hosts(t):
    """An aggregate address: a service mapping goes to one of the hosts that offer it, and when that
    one is gone to another one.
    """
    _, a, central, b, c = central_cluster(t)
    both = {(f"host{host.number}", AGGREGATE, SERVICE) for host in (b, c)}
    servers = {}
    for host in (b, c):
        host.add_address(AGGREGATE)
        servers[host.ip] = serve(host, at="0.0.0.0")
    t.until(lambda: both <= services(central), 15, "both to offer it")
    client = pm.Client(a, central.ip)
    nodes = set()
    for _ in range(40):  # by chance all at one of them: once in 2^39
        handle = client.handle()
        answers = set()
        for _ in range(2):  # a repeated request has the same answer
            said = answer(t, client, 0, handle)
            t.equal(said["op"], pm.ACCEPT, said)
            answers.add((said["ap"], said["from"]))
        t.equal(len(answers), 1, answers)
        nodes |= {ap for ap, _ in answers}
    t.equal(nodes, {b.ip, c.ip}, "hosts that have answered")
    # For a connection that exists nobody but the host that has it can answer.
    t.equal(answer(t, client, 4711)["op"], pm.DENY, "a connection upgrade")
    t.kill(servers.pop(b.ip).proc)
    t.until(lambda: both & services(central) == {("host4", AGGREGATE, SERVICE)}, 15, "one is left")
    for _ in range(10):
        t.equal(answer(t, client, 0)["ap"], c.ip, "the one that is left")
    t.equal(answer(t, client, 4711)["ap"], c.ip, "a connection upgrade")


@case(timeout=90)
def connect_goes_to_a_host_that_offers_it(t):
    """A preloaded program connects to an aggregate address; no host's configuration names another
    host.
    """
    _, a, central, b, c = central_cluster(t)
    a.write_config(**{**a.config, "ask-first": [f"{AGGREGATE}/32"], "ask-first-time": "2s"})
    a.post("/v1/reload", {})
    servers = []
    for host in (b, c):
        host.add_address(AGGREGATE)
        servers.append(serve(host, at="0.0.0.0"))
    t.until(lambda: {(f"host{host.number}", AGGREGATE, SERVICE) for host in (b, c)} <=
            services(central), 15, "both to offer it")
    asker = Asker(a)
    t.check(asker.connect(AGGREGATE)["peer"] in (b.ip, c.ip), "one of them")
    t.kill(servers[0].proc)
    t.until(lambda: ("host3", AGGREGATE, SERVICE) not in services(central), 15, "one is left")
    # The answer is remembered for its PmTime.
    t.until(lambda: asker.connect(AGGREGATE)["peer"] == c.ip, 20, "the one that is left")
    t.equal(asker.connect(AGGREGATE)["peer"], c.ip, "and then always")
    t.check(count(central, "referred") >= 1, "requests that were redirected")


@case(timeout=60)
def without_the_key_nothing_is_redirected(t):
    _, a, central, b = central_cluster(t, aps=1, redirect=False)
    serve(b)
    knows(t, central, of(b), {("host3", AGGREGATE, SERVICE)})
    t.equal(a.map(b, SERVICE)["outcome"], "refused", "by the central one")
    t.equal((count(central, "referred"), b.asked()), (0, 0), "redirected")


@case(timeout=60)
def redirected_once_only(t):
    """Two hosts that offer a service, but not to the one that asks: each has heard of the other
    one. It is denied, and does not go round.
    """
    lab = Lab(t, 4)
    a, central, b, last = lab.hosts
    etcd = Etcd(last)
    for host in (central, b):
        host.start(**serving(host, cluster={
            "etcd": [etcd.url], "prefix": PREFIX, "lease": f"{LEASE_S}s", "redirect": True},
            aggregates=[{"address": AGGREGATE, "over": ["rnic0"]}],
            rules=[{"name": "own", "when": {"peers": [f"{AGGREGATE}/32"]}}],
            **{"redirects-from": [f"{central.ip}/32", f"{b.ip}/32"]}))
        host.add_address(AGGREGATE)
        serve(host, at="0.0.0.0")
    for host in (central, b):
        knows(t, host, {("host2", AGGREGATE, SERVICE), ("host3", AGGREGATE, SERVICE)})
    for host, other in ((central, b), (b, central)):
        referred = count(host, "referred"), count(other, "referred")
        said = pm.Client(a, host.ip).ask(AGGREGATE, SERVICE, 0)
        t.check(said and said["op"] == pm.DENY, f"{said}")
        t.equal(said["from"], other.ip, "who has answered")
        t.equal((count(host, "referred"), count(other, "referred")), (referred[0] + 1, referred[1]),
                "redirected")


@case(timeout=60)
def an_entry_that_names_this_host(t):
    """Nothing is sent to itself: a denial."""
    etcd, a, central = central_cluster(t, aps=0)
    etcd.put(json.dumps(good("liar", rdma=central.ip)), f"{PREFIX}/services/liar")
    knows(t, central, {("liar", "10.77.0.99", 99)})
    said = pm.Client(a, central.ip).ask("10.77.0.99", 99, 0)
    t.check(said and said["op"] == pm.DENY, f"{said}")
    t.equal(count(central, "referred"), 0, "redirected")


@case(timeout=60)
def the_pmsp_of_the_cp_s_own_host(t):
    """The PM client asks the PMSP of its own host, which knows by the cluster who offers what."""
    lab = Lab(t, 3)
    a, b, last = lab.hosts
    etcd = Etcd(last)
    cluster = {"etcd": [etcd.url], "prefix": PREFIX, "lease": f"{LEASE_S}s"}
    a.start(**asking(a, client={"central": f"{a.ip}:3935", "silent-time": "0s"},
                     cluster={**cluster, "redirect": True}))
    b.start(**serving(b, cluster=cluster, **{"redirects-from": [f"{a.ip}/32"]}))
    t.equal(a.map(b, SERVICE)["outcome"], "refused", "nobody offers it")
    serve(b)
    knows(t, a, of(b))
    said = a.map(b, SERVICE, cp_port=1)
    t.equal((said["outcome"], said["rdma"]), ("mapped", {"ip": b.ip, "port": FIXED}), said)
    t.equal(said["asked"]["ip"], a.ip, "who was asked")
    t.equal((count(a, "referred"), b.counts()["accepts"]), (1, 1), "redirected, and answered")


if __name__ == "__main__":
    sys.exit(main())
