#!/usr/bin/python3
"""The services of a cluster: each rsockd tells the others, by an entry in a real etcd, which
services its host offers on RDMA, and operators see all of them.
"""
import base64
import json
import signal
import sys
import time

import pm
from etcdlab import PORT, PREFIX, Etcd, Proxy, b64
from lib.harness import case, main
from net_cluster import rsock, state
from net_members import GARBAGE, LEASE_S, cluster, entry, member, registered
from net_rsockd import FIXED, SERVICE, released
from netlab import Lab, ip

MADE = 6000  # a service port without an RDMA port of its own
AGGREGATE = "10.77.0.100"


def services(host):
    """What the host knows, without the times: a set of (node, address, port)."""
    return {(one["node"], one["address"], one["port"])
            for one in host.get("/v1/policy/services")["services"]}


def of(*hosts, port=SERVICE):
    """A listener at all addresses of both families, on these hosts."""
    return {(f"host{host.number}", address, port) for host in hosts
            for address in (host.ip, host.ip6)}


def knows(t, host, *what, seconds=15):
    t.until(lambda: services(host) == set().union(*what), seconds,
            f"host {host.number} to know {set().union(*what)}, not {services(host)}")


def key(host):
    return f"{PREFIX}/services/host{host.number}"


def told(etcd, host):
    """The host's entry as etcd has it."""
    return json.loads(base64.b64decode(entry(etcd, key(host))["value"]))


def count(host, name):
    return host.figure(f"cluster_services_{name}_total")


def serve(host, port=SERVICE, at="::"):
    return host.peer().listen(port, at=at, family=10 if ":" in at else 2)


def in_sync(t, host, yes=True):
    t.until(lambda: state(host)["services"]["in-sync"] == yes, 15,
            f"host {host.number} to be {'' if yes else 'not '}in sync")


@case(timeout=60)
def appear_and_disappear(t):
    """Listeners of preloaded programs, on both hosts; what policy does not want, what others cannot
    reach, and what is not preloaded is not told.
    """
    etcd, a, b = cluster(t)
    for host in (a, b):
        in_sync(t, host)
    knows(t, a)
    first = serve(a)
    other = serve(b, port=MADE, at=b.ip)
    serve(a, port=7999)  # no service
    serve(b, port=SERVICE, at="127.0.0.1")
    b.peer(preload=False).listen(MADE + 1, at=b.ip)
    made = {("host2", b.ip, MADE)}
    for host in (a, b):
        knows(t, host, of(a), made)
        t.until(lambda host=host: host.figure("listeners") == 2, 10, "both listeners of each")
    rows = {(one["node"], one["address"]): one for one in b.get("/v1/policy/services")["services"]}
    row = rows["host1", a.ip]
    t.check(abs(time.time() - time.mktime(time.strptime(row["since"], "%Y-%m-%dT%H:%M:%SZ")) +
                time.timezone) < 60, row)
    t.equal({**row, "since": 0}, {"node": "host1", "name": "iperf", "address": a.ip,
                                  "port": SERVICE, "device": "rnic0", "rdma": a.ip,
                                  "rdma-port": FIXED, "since": 0}, "a row")
    t.equal((rows["host2", b.ip]["name"], rows["host2", b.ip]["rdma-port"]), ("made", 0), rows)
    t.equal(entry(etcd, key(a))["lease"], entry(etcd, f"{PREFIX}/members/host1")["lease"],
            "the lease")
    t.equal((b.figure("cluster_services_offered"), b.figure("cluster_services_known"),
             b.figure("cluster_services_nodes"), b.figure("cluster_services_in_sync")),
            (1, 3, 2, 1), "the metrics")
    said = rsock(t, b, "services")
    t.check(any(line.split()[:4] == ["host1", "iperf", f"{a.ip}:{SERVICE}", "rnic0"]
                for line in said.splitlines()), said)
    t.check(f"[{a.ip6}]:{SERVICE}" in said and "a port on request" in said, said)
    t.equal(len(json.loads(rsock(t, b, "services", "--json"))["services"]), 3, "--json")
    t.check("root" in rsock(t, a, "services", user=65534, expect=1), "another user")
    written = count(a, "writes")
    first.do("close", group=f"l{SERVICE}")
    knows(t, b, made)
    t.kill(other.proc)
    knows(t, a)
    t.equal(count(a, "writes"), written + 1, "one write for one change")
    t.equal((count(a, "losses"), count(a, "failures")), (0, 0), "nothing was disputed")
    t.check(count(b, "events") >= 4, "what the watch has told")


@case(timeout=60)
def nothing_to_tell(t):
    """A host that offers nothing has no entry, of which all others would have to hear. What is in
    its place by another way does not stay; nor does an empty entry once its lease is gone.
    """
    etcd, a, b = cluster(t)
    mine = serve(a, at=a.ip)
    knows(t, b, {("host1", a.ip, SERVICE)})
    other = serve(a, port=MADE, at=a.ip)
    knows(t, b, {("host1", a.ip, SERVICE), ("host1", a.ip, MADE)})  # a second later
    t.equal((entry(etcd, key(b)), count(b, "writes")), (None, 0), "while it offers nothing")
    etcd.put("somebody else's", key(b))
    t.until(lambda: count(b, "writes") == 1 and told(etcd, b)["services"] == [], 10, "its entry")
    mine.do("close", group=f"l{SERVICE}")
    t.kill(other.proc)
    knows(t, b)
    t.equal(told(etcd, a)["services"], [], "an entry that says that there is nothing")
    a.daemon.popen.send_signal(signal.SIGSTOP)
    t.until(lambda: not entry(etcd, key(a)), 4 * LEASE_S + 5, "its entry to go")
    a.daemon.popen.send_signal(signal.SIGCONT)
    registered(t, a)
    in_sync(t, a)
    writes = count(a, "writes")
    serve(b, at=b.ip)
    knows(t, a, {("host2", b.ip, SERVICE)})  # more than one look later
    t.equal((entry(etcd, key(a)), count(a, "writes")), (None, writes), "nothing is told anew")


@case(timeout=60)
def policy_and_devices_decide(t):
    etcd, a, b = cluster(t)
    serve(b, at="0.0.0.0")
    here = {("host2", b.ip, SERVICE)}
    knows(t, a, here)
    since = a.get("/v1/policy/services")["services"][0]["since"]
    b.post("/v1/drain", {"device": "rnic0"})
    knows(t, a)
    b.post("/v1/drain", {"device": "rnic0", "on": False})
    knows(t, a, here)
    b.write_config(**member(b, etcd.url, rules=[{"name": "others", "when": {"ports": ["6000"]}}]))
    b.post("/v1/reload", {})
    knows(t, a)
    b.write_config(**member(b, etcd.url))
    b.post("/v1/reload", {})
    knows(t, a, here)
    # A further address of the RNIC, and one that an aggregate has for it.
    b.write_config(**member(b, etcd.url, rnics=[
        {"name": "rnic0", "addresses": [b.ip, "10.77.1.2"], "sessions": 1}],
        aggregates=[{"address": AGGREGATE, "over": ["rnic0"]}]))
    ip("-n", b.ns, "address", "add", "10.77.1.2/24", "dev", "lan")
    b.post("/v1/reload", {})
    more = here | {("host2", "10.77.1.2", SERVICE), ("host2", AGGREGATE, SERVICE)}
    knows(t, a, more)
    t.check(all(one["since"] >= since for one in a.get("/v1/policy/services")["services"]), since)
    # The only session that there is: the service stays for a while, and is withdrawn then.
    client = pm.Client(a, b.ip)
    began = time.monotonic()
    while time.monotonic() - began < 1:
        client.ask(b.ip, SERVICE, 1)
        t.equal(services(a), more, "a service whose last session is promised")
    while services(a) and time.monotonic() - began < 20:
        client.ask(b.ip, SERVICE, 1)
    t.check(4 < time.monotonic() - began < 20, f"after {time.monotonic() - began} s")
    t.equal(services(a), set(), "a service without a session left")
    released(t, b)
    knows(t, a, more)


@case(timeout=60)
def go_with_the_daemon(t):
    """Killed: with its lease. Ended: at once. Started again: as they are found then."""
    etcd, a, b = cluster(t)
    serve(b)
    knows(t, a, of(b))
    lease = entry(etcd, key(b))["lease"]
    began = time.monotonic()
    t.kill(b.daemon)
    t.equal(services(a), of(b), "while the lease lasts")
    knows(t, a, seconds=3 * LEASE_S)
    t.check(entry(etcd, key(b)) is None, "its entry in etcd")
    t.check(time.monotonic() - began < 4 * LEASE_S, "how long it took")
    b.restart()
    registered(t, b)
    knows(t, a, of(b))
    t.check(entry(etcd, key(b))["lease"] != lease, "another lease")
    # Stopped for longer than its lease: it writes again, under another one.
    lease = entry(etcd, key(b))["lease"]
    b.daemon.popen.send_signal(signal.SIGSTOP)
    knows(t, a)
    b.daemon.popen.send_signal(signal.SIGCONT)
    knows(t, a, of(b))
    t.check(entry(etcd, key(b))["lease"] != lease, "another lease")
    t.equal(count(b, "losses"), 0, "nobody else has changed it")
    t.stop(b.daemon, signal.SIGTERM)
    t.equal(entry(etcd, key(b)), None, "revoked")
    knows(t, a, seconds=2)


@case(timeout=60)
def a_name_that_another_one_holds(t):
    """Who is not a member under the name does not speak for its services."""
    lab = Lab(t, 3)
    etcd = Etcd(lab.hosts[-1])
    a, b = lab.hosts[:2]
    a.start(**member(a, etcd.url, node="same"))
    registered(t, a)
    serve(a, at=a.ip)
    knows(t, a, {("same", a.ip, SERVICE)})
    b.start(**member(b, etcd.url, node="same"))
    serve(b, at=b.ip)
    t.until(lambda: b.figure("cluster_member_conflicts_total") >= 2, 20, "the conflict")
    t.until(lambda: b.figure("cluster_services_offered") == 1, 10, "the second to have a service")
    knows(t, b, {("same", a.ip, SERVICE)})
    t.equal(count(b, "writes"), 0, "what the second has written")
    t.stop(a.daemon, signal.SIGTERM)
    knows(t, b, {("same", b.ip, SERVICE)}, seconds=20)


@case(timeout=90)
def changed_by_somebody_else(t):
    """Deleted or overwritten: it is written again, not without end, and under the watch only."""
    etcd, a, b = cluster(t)
    serve(b)
    knows(t, a, of(b))

    def written_again():
        is_there = entry(etcd, key(b))
        return is_there and is_there["value"] != b64("mine") and told(etcd, b)["services"]
    for change in (lambda: etcd.do("kv/deleterange", key=b64(key(b))),
                   lambda: etcd.put("mine", key(b))):
        change()
        knows(t, a, of(b), seconds=20)
        t.until(written_again, 10, "the entry")
    t.equal(count(b, "losses"), 2, "how often it was lost")
    writes = count(b, "writes")
    began = time.monotonic()
    while time.monotonic() - began < 4:
        etcd.put("mine", key(b))
    t.check(count(b, "writes") <= writes + 2, f"{count(b, 'writes') - writes} writes in 4 s")
    knows(t, a, of(b), seconds=20)


def good(node, **change):
    """An entry of a host that does not exist."""
    one = {"name": "s", "address": "10.77.0.99", "port": 99, "device": "d", "rdma": "10.77.0.98",
           "rdma-port": 0, "since": "2020-01-01T00:00:00Z"}
    return {"node": node, "listens": [{"address": "0.0.0.0", "port": 3935}], "left-out": 0,
            "services": [{**one, **change}]}


WRONG_SERVICE = [
    {"address": "0.0.0.0"}, {"address": "127.0.0.1"}, {"address": "224.0.0.1"},
    {"address": "255.255.255.255"}, {"address": "169.254.0.1"}, {"address": "::1"},
    {"address": "fe80::1"}, {"address": "ff02::1"}, {"address": "::ffff:10.0.0.1"},
    {"address": "10.77.0.99\0"}, {"address": "10.77.0.999"}, {"address": "host1"}, {"address": 5},
    {"port": 0}, {"port": 65536}, {"port": -1}, {"port": "99"}, {"port": 99.0},
    {"rdma": "fd77::1"}, {"rdma": "127.0.0.1"}, {"rdma": None}, {"rdma-port": 70000},
    {"name": ""}, {"name": "x" * 64}, {"name": "\x1b[2J"}, {"name": None}, {"device": "\n"},
    {"since": "x" * 100}, {"since": 5},
]


@case(timeout=90)
def garbage_among_the_services(t):
    """At the start and under the watch; it is shown as what it is, and nobody is sent there."""
    etcd, a, b = cluster(t)
    serve(b)
    knows(t, a, of(b))
    values = {f"x{number:02d}": value for number, value in enumerate(GARBAGE)}
    for number, change in enumerate(WRONG_SERVICE):
        values[f"y{number:02d}"] = json.dumps(good(f"y{number:02d}", **change))
    whole = good("z")
    wrong = [{"node": "host2"}, {"services": {}}, {"services": [5]},
             {"services": whole["services"] * 257}, {"listens": "x"},
             {"listens": whole["listens"] * 33}, {"listens": [{"address": "0.0.0.0", "port": 0}]},
             {"left-out": -1}, {"left-out": "0"}, {"left-out": 2**63}]
    for number, change in enumerate(wrong):
        values[f"w{number:02d}"] = json.dumps({**good(f"w{number:02d}"), **change})
    values["z"] = json.dumps({**whole, "new": [1], "left-out": 2**63 - 1})
    values["zz"] = json.dumps({**good("zz", port=98), "left-out": 5})
    values[""] = "x"
    values["\x1b[2J"] = "x"
    values["k" * 600] = json.dumps(good("k" * 600))  # a key that is too long
    expected = of(b) | {("z", "10.77.0.99", 99), ("zz", "10.77.0.99", 98)}
    for name, value in values.items():
        etcd.put(value, f"{PREFIX}/services/{name}")
    for restarted in (False, True):
        if restarted:
            t.stop(a.daemon)
            a.restart()
        knows(t, a, expected)
        t.until(lambda: len(a.get("/v1/policy/services")["unreadable"]) == len(values) - 3, 10,
                "the rest to be unreadable")
        in_sync(t, a)
        answer = a.get("/v1/policy/services")
        t.equal((answer["in-sync"], answer["more"], answer["left-out"]), (True, True, 2**63 - 1),
                "the rest of the answer")
        said = rsock(t, a, "services")
        t.check("\x1b" not in said and said.count("unreadable") == len(values) - 3, said)
    for name in values:
        etcd.do("kv/deleterange", key=b64(f"{PREFIX}/services/{name}"))
    knows(t, a, of(b))
    t.until(lambda: not a.get("/v1/policy/services")["unreadable"], 10, "nothing to be unreadable")
    t.until(lambda: not a.get("/v1/policy/services")["more"], 30, "the table to be whole again")
    t.check(a.daemon.popen.poll() is None and b.daemon.popen.poll() is None, "the daemons run")


@case(timeout=60)
def more_than_a_table_has_room_for(t):
    """Entries fill the table: what is beyond it is left out, and comes when there is room."""
    etcd, a = cluster(t, agents=1)
    many = [{**good("x", port=port + 1)["services"][0]} for port in range(256)]
    for number in range(66):
        name = f"n{number:02d}"
        etcd.put(json.dumps({**good(name), "services": many}), f"{PREFIX}/services/{name}")
    t.until(lambda: state(a)["services"]["known"] == 16384, 20, "a full table")
    t.until(lambda: state(a)["services"]["nodes"] == 66, 10, "hosts, of which two are left out")
    t.check(a.get("/v1/policy/services")["more"], "that there are more")
    t.check("there are more" in rsock(t, a, "services"), "the tool")
    for number in range(10):
        etcd.do("kv/deleterange", key=b64(f"{PREFIX}/services/n{number:02d}"))
    t.until(lambda: state(a)["services"]["known"] == 56 * 256, 30, "the others to be taken")
    t.check(not a.get("/v1/policy/services")["more"], "that there are no more")
    serve(a, at=a.ip)
    t.until(lambda: ("host1", a.ip, SERVICE) in services(a), 10, "a service of this host")


@case(timeout=120)
def one_that_comes_and_goes_all_the_time(t):
    """Some changes are told at once; then they are put together, since all hosts hear of each."""
    etcd, a = cluster(t, agents=1)
    knows(t, a)
    before, began, peers = count(a, "writes"), time.monotonic(), []

    def held_back():
        """One more change; whether it is not told at once."""
        if peers:
            t.kill(peers.pop().proc)
        else:
            peers.append(serve(a))
        should, late = of(a) if peers else set(), time.monotonic() + 4
        t.until(lambda: services(a) == should or time.monotonic() > late, 10, "a change to be told")
        return services(a) != should
    t.until(held_back, 50, "a change to be held back")
    told_at_once = count(a, "writes") - before
    t.check(5 <= told_at_once <= 11 + (time.monotonic() - began) / 10, f"{told_at_once} writes")
    serve(a, MADE)
    knows(t, a, of(a) if peers else set(), of(a, port=MADE), seconds=25)


@case(timeout=60)
def a_compaction_under_the_watch(t):
    """The watch is to begin at a revision that etcd has forgotten meanwhile: the entries are read
    again, and what is not there any more is forgotten.
    """
    lab = Lab(t, 2)
    a, etcd = lab.hosts[0], Etcd(lab.hosts[1])
    way = Proxy(lab.hosts[1], 4000, (etcd.host.ip, PORT))
    for name in ("x", "y"):
        etcd.put(json.dumps(good(name)), f"{PREFIX}/services/{name}")
    way.hold = b"/v3/watch"
    a.start(**member(a, way.url))
    t.until(lambda: way.held == 3, 10, "the watches of services, roles and the document")
    knows(t, a, {("x", "10.77.0.99", 99), ("y", "10.77.0.99", 99)})
    etcd.do("kv/deleterange", key=b64(f"{PREFIX}/services/x"))
    newest = etcd.put(json.dumps(good("y", port=7)), f"{PREFIX}/services/y")
    etcd.do("kv/compaction", revision=str(newest))
    way.hold = None
    knows(t, a, {("y", "10.77.0.99", 7)})
    in_sync(t, a)
    t.equal((count(a, "compactions"), count(a, "outages")), (1, 0), "watches that were ended")
    etcd.put(json.dumps(good("y", port=8)), f"{PREFIX}/services/y")
    knows(t, a, {("y", "10.77.0.99", 8)})


class Muffler(Proxy):
    """While it is deaf, nothing comes back on connections on which a watch was asked for."""

    def __init__(self, *words):
        self.watching, self.deaf = set(), False
        super().__init__(*words)

    def pump(self, source, sink, is_request):
        super().pump(Ear(self, source, sink, is_request), sink, is_request)


class Ear:
    """The source of what a Muffler carries."""

    def __init__(self, by, source, sink, is_request):
        self.by, self.source, self.near = by, source, source if is_request else sink
        self.is_request = is_request

    def recv(self, size):
        while True:
            data = self.source.recv(size)
            if self.is_request and b"create_request" in data:
                self.by.watching.add(self.near)
            if self.is_request or not data or not (self.by.deaf and self.near in self.by.watching):
                return data

    def shutdown(self, how):
        self.source.shutdown(how)


@case(timeout=90)
def a_watch_of_which_nothing_is_heard(t):
    """Other calls are answered, so the entries are read again, and the watch begins anew."""
    lab = Lab(t, 3)
    etcd = Etcd(lab.hosts[-1])
    a, b = lab.hosts[:2]
    way = Muffler(lab.hosts[-1], 4000, (etcd.host.ip, PORT))
    a.start(**member(a, way.url))
    b.start(**member(b, etcd.url))
    in_sync(t, a)
    serve(b, at=b.ip)
    knows(t, a, {("host2", b.ip, SERVICE)})
    reads = count(a, "reads")
    way.deaf = True
    serve(b, port=MADE, at=b.ip)
    knows(t, a, {("host2", b.ip, SERVICE), ("host2", b.ip, MADE)}, seconds=30)
    way.deaf = False
    t.check(count(a, "reads") > reads, "they were read again")
    in_sync(t, a)


@case(timeout=60)
def entries_without_measure(t):
    """More than an answer may have: what was known stays, the reason is shown and logged once."""
    etcd, a, b = cluster(t)
    serve(b)
    knows(t, a, of(b))
    for number in range(13):
        etcd.put(b"x" * 1200000, f"{PREFIX}/services/x{number:02d}")
    t.until(lambda: len(a.get("/v1/policy/services")["unreadable"]) == 13, 20, "one by one")
    t.equal(services(a), of(b), "what is readable")
    t.stop(a.daemon)
    a.restart()
    t.until(lambda: state(a)["services"]["error"], 15, "a failure")
    t.check(not state(a)["services"]["in-sync"] and services(a) == set(), state(a))
    t.until(lambda: count(a, "outages") and "not watched" in a.daemon.err(), 15, "it to be logged")
    registered(t, a)
    for number in range(13):
        etcd.do("kv/deleterange", key=b64(f"{PREFIX}/services/x{number:02d}"))
    knows(t, a, of(b), seconds=20)
    in_sync(t, a)
    t.equal(a.daemon.err().count("not watched"), 1, a.daemon.err())


@case(timeout=60)
def etcd_is_restarted(t):
    etcd, a, b = cluster(t)
    serve(b)
    knows(t, a, of(b))
    etcd.kill()
    late = serve(b, port=MADE, at=b.ip)
    in_sync(t, a, False)
    t.equal(services(a), of(b), "what was seen last")
    t.check("seen last: " in rsock(t, a, "services"), "the tool")
    etcd.start()
    knows(t, a, of(b), {("host2", b.ip, MADE)})
    t.check("seen last: " not in rsock(t, a, "services"), "the tool")
    t.check(count(a, "outages") >= 1, "the metric")
    # A store that knows nothing: its revisions begin anew.
    etcd.kill()
    etcd.data = t.path("etcd-anew")
    t.kill(late.proc)
    etcd.start()
    for host in (a, b):
        knows(t, host, of(b), seconds=20)
        in_sync(t, host)
    t.check("not told" not in b.daemon.err() and "not watched" not in a.daemon.err(),
            a.daemon.err())


if __name__ == "__main__":
    sys.exit(main())
