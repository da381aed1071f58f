#!/usr/bin/python3
"""The ledger of remote ports: hosts hold sessions of each other's RNICs by quotas in a real etcd,
ahead of need. An auditor reads all that is granted, all the time: never more than there is.
"""
import json
import signal
import sys
import time

import local
import pm
from cluster_audit import (HOLD_S, LEDGER, Auditor, count, entries, ledger, own, quotas, ready,
                           remote)
from etcdlab import PREFIX, Etcd, EtcdCluster, Proxy, b64
from lib.harness import case, main
from net_cluster import rsock, state
from net_local import ALICE, BOB, PORT
from net_members import LEASE_S, registered
from net_rdma import RAIL_A, RAIL_B, Connection, answer, at, guest, link, silent
from net_rsockd import EVERYTHING
from netlab import Lab


def config(host, urls, sessions=100, ledger=True, **more):
    cluster = {"etcd": urls, "prefix": PREFIX, "lease": f"{LEASE_S}s", "timeout": "1s"}
    return {"rnics": [{"name": "rnic0", "addresses": [host.ip], "sessions": sessions}],
            "services": [{"name": "it", "ports": [str(PORT)]}], "rules": EVERYTHING,
            "pmsp": {"accept-time": "3s"},
            "cluster": {**cluster, **({"ledger": {"hold": f"{HOLD_S}s"}} if ledger else {})},
            **more}


def longer(whole, hold):
    whole["cluster"]["ledger"]["hold"] = hold
    return whole


def lab(t, sessions=8, hosts=3):
    """etcd on the last host; the first one owns the RNIC that the others use."""
    net = Lab(t, hosts + 1)
    etcd = Etcd(net.hosts[-1])
    for i, host in enumerate(net.hosts[:-1]):
        host.start(**config(host, [etcd.url], sessions if i == 0 else 100))
    for host in net.hosts[:-1]:
        ready(t, host)
    for host in net.hosts[1:-1]:
        t.until(lambda h=host: remote(h, net.hosts[0]), 10, "the offer of the first host")
    return etcd, *net.hosts[:-1]


class Sessions:
    """Streams from a host to the owner's, with a process at each end that says what librsock does.
    """

    def __init__(self, t, host, owner, rail=RAIL_A, port=PORT, users=(BOB, ALICE)):
        self.t, self.host, self.owner = t, host, owner
        self.port, self.users = port, users  # users: who connects, who accepts
        self.client, self.server = guest(host, users[0], rail), guest(owner, users[1], RAIL_B)
        self.open, self.plain = [], []

    def begin(self):
        """Returns the reason that the connecting end is told."""
        c = Connection(self.host, self.owner, *self.users, self.port)
        c.listener.close()
        self.server.look_up(c.far, False)
        answer(self.t, self.server, "the accepting end")
        self.client.look_up(c.near, True)
        reason, said = answer(self.t, self.client, "the connecting end")
        if reason != "mapped":
            self.plain.append(c)
            return reason
        link(self.t, self.server, c.far, said["link"],
             **at(self.owner, RAIL_B, from_ip=pm.packed(self.host.ip)))
        self.t.equal(answer(self.t, self.server, "LINK")[0], "mapped", "let in")
        link(self.t, self.client, c.near, said["link"], flags=local.CONNECTING,
             from_ip=pm.packed(self.host.ip))
        self.open.append((c, said["link"]))
        return reason

    def end(self):
        """Ends the oldest one at both ends."""
        _, handle = self.open.pop(0)
        self.server.say(local.UNLINK, link=handle)
        self.client.say(local.UNLINK, link=handle)
        silent(self.t, self.server)
        silent(self.t, self.client)

    def flow(self):
        """Bytes pass in all streams that were ever begun."""
        for c in [*(c for c, _ in self.open), *self.plain]:
            c.near.sendall(b"x")
            self.t.equal(c.far.recv(1), b"x", "a byte")


@case(timeout=90)
def a_quota_is_taken_ahead_and_given_back(t):
    etcd, o, a, _ = lab(t, sessions=64)
    auditor = Auditor(t, etcd, {"host1/rnic0": 64})
    t.equal(own(o)["offered"], 56, "what is offered at first")
    s = Sessions(t, a, o)
    t.equal(s.begin(), "mapped", "the first, without a quota")
    t.until(lambda: quotas(etcd, o).get("host2", 0) >= 4, 10, "a quota to be taken ahead of need")
    t.until(lambda: [(one["holder"], one["used"]) for one in own(o)["holders"]] == [("host2", 1)],
            10, "the owner to know who uses it")
    covered = count(a, "covered")
    t.equal([s.begin() for _ in range(2)], ["mapped"] * 2, "more")
    t.equal(count(a, "covered") - covered, 2, "covered by the quota")
    said = rsock(t, a, "ledger")
    t.check("the ledger is shared" in said and "host1/rnic0" in said, said)
    said = rsock(t, o, "ledger")
    t.check("host2" in said and "uses 3" in said, said)
    t.check("the ledger is shared" in rsock(t, a, "show"), "policy show")
    s.flow()
    t.until(lambda: quotas(etcd, o).get("host2") == 3, 30, "what is not needed to be given back")
    for _ in range(3):
        s.end()
    t.until(lambda: quotas(etcd, o) == {}, 30, "all of it to be given back")
    auditor.end()


@case(timeout=120)
def two_hosts_want_the_last_sessions(t):
    """All sessions come to use, none twice; then nobody asks any more."""
    etcd, o, a, b = lab(t, sessions=8)
    auditor = Auditor(t, etcd, {"host1/rnic0": 8})
    both = Sessions(t, a, o), Sessions(t, b, o)
    t.equal(both[0].begin(), "mapped", "the first, without a quota")
    t.until(lambda: quotas(etcd, o), 20, "a quota")

    def fill():
        """One more where there is room. Returns whether all are in use."""
        for s in both:
            if s.begin() == "mapped":
                t.check(own(o)["booked"] <= 8, own(o))
        return own(o)["booked"] == 8
    t.until(fill, 60, "all sessions to be in use")
    t.until(lambda: all(remote(h, o)["state"] == "full" for h in (a, b)), 10, "both to know it")
    requests, sent = o.asked(), len(both[0].plain)
    for s in both:
        t.equal([s.begin() for _ in range(5)], ["peer-full"] * 5, "a full RNIC")
    t.equal(o.asked() - requests, 0, "PMReq to a full RNIC")
    t.equal(len(both[0].plain) - sent, 5, "streams that stay on TCP")
    t.check(count(a, "spared") >= 5, "questions that were spared")
    for s in both:
        s.flow()
    # One ends, and its place is taken again.
    next(s for s in both if s.open).end()
    t.until(fill, 30, "the last one to be in use again")
    auditor.end()


@case(timeout=90)
def a_host_is_killed(t):
    """What it held is free after its lease, and what it used when its sessions end."""
    etcd, o, a, b = lab(t, sessions=16)
    auditor = Auditor(t, etcd, {"host1/rnic0": 16})
    s = Sessions(t, a, o)
    t.equal([s.begin() for _ in range(3)], ["mapped"] * 3, "sessions")
    t.until(lambda: quotas(etcd, o).get("host2", 0) >= 3, 10, "a quota")
    t.kill(a.daemon)
    killed = time.monotonic()
    t.until(lambda: quotas(etcd, o) == {}, 4 * HOLD_S, "the quota to go with its lease")
    t.check(time.monotonic() - killed < 2 * 2 * HOLD_S, "within two leases")
    # The sessions are there, and the owner has told that before.
    t.equal(entries(etcd, "capacity")["host1/rnic0"]["used"].get("host2", 0) >= 3, True, "used")
    s.server.close()
    t.until(lambda: own(o)["booked"] == 0, 10, "the sessions to end")
    t.until(lambda: entries(etcd, "capacity")["host1/rnic0"] and
            not entries(etcd, "capacity")["host1/rnic0"]["used"], 10, "nothing to be used")
    t.until(lambda: own(o)["offered"] == 12 and not own(o)["holders"], 10, "all of it to be free")
    more = Sessions(t, b, o)
    t.equal([more.begin() for _ in range(2)], ["mapped"] * 2, "another host")
    auditor.end()


@case(timeout=90)
def a_host_ends_in_order(t):
    """Its quota is given back at once. What it uses stays the owner's to count: streams go on."""
    net = Lab(t, 4)
    o, a, b, last = net.hosts
    etcd = Etcd(last)
    for host in (o, a, b):  # leases of 40 s, and more
        host.start(**longer(config(host, [etcd.url], 16 if host is o else 100), "20s"))
    for host in (o, a, b):
        ready(t, host)
    t.until(lambda: remote(a, o) and remote(b, o), 10, "the offer")
    auditor = Auditor(t, etcd, {"host1/rnic0": 16})
    s = Sessions(t, a, o)
    t.equal([s.begin() for _ in range(2)], ["mapped"] * 2, "sessions")
    t.until(lambda: quotas(etcd, o).get("host2", 0) >= 3, 10, "a quota")
    t.until(lambda: remote(a, o)["published"] >= 2, 10, "what it uses to be told")
    t.stop(a.daemon, signal.SIGTERM)
    t.equal(a.daemon.popen.returncode, 0, "its exit status")
    t.equal(quotas(etcd, o), {}, "its quota")
    t.check("not valid any more" not in a.daemon.err(), a.daemon.err())
    t.until(lambda: [(one["quota"], one["used"]) for one in own(o)["holders"]] == [(0, 2)], 10,
            "the owner to count what is in use")
    s.flow()
    other = Sessions(t, b, o)

    def fill():
        other.begin()
        return own(o)["booked"] == 16
    t.until(fill, 60, "the other one to take the rest")
    t.equal(len(other.open), 14, "sessions of the other one")
    s.flow()
    auditor.end()


@case(timeout=60)
def a_host_ends_before_its_use_is_told(t):
    """The quota stays until its lease ends: it is all that speaks for the sessions."""
    net = Lab(t, 3)
    o, a, last = net.hosts
    etcd = Etcd(last)
    proxy = Proxy(last, 2479, (last.ip, 2379))
    o.start(**longer(config(o, [proxy.url], 64), "20s"))
    a.start(**longer(config(a, [etcd.url]), "20s"))
    for host in (o, a):
        ready(t, host)
    t.until(lambda: remote(a, o), 10, "the offer")
    proxy.hold = b"request_put"
    s = Sessions(t, a, o)
    t.equal(s.begin(), "mapped", "a session")
    t.until(lambda: quotas(etcd, o).get("host2", 0) >= 1 and remote(a, o)["quota"] >= 1, 10,
            "a quota, and that the host knows it")
    t.equal(entries(etcd, "capacity")["host1/rnic0"]["used"], {}, "what is told of it")
    t.stop(a.daemon, signal.SIGTERM)
    t.equal(a.daemon.popen.returncode, 0, "its exit status")
    t.check(quotas(etcd, o).get("host2", 0) >= 1, "its quota stays")
    proxy.hold = None
    t.until(lambda: entries(etcd, "capacity")["host1/rnic0"]["used"].get("host2", 0) >= 1, 30,
            "the owner to tell it")
    s.flow()


@case(timeout=90)
def an_owner_is_killed_and_comes_back(t):
    """Its offer goes with its entry, and its holders give back what they do not use. If it is back
    before that, it keeps free what they hold, and what its former run has offered.
    """
    etcd, o, a, _ = lab(t, sessions=64)
    auditor = Auditor(t, etcd, {"host1/rnic0": 64})
    first = Sessions(t, a, o)
    t.equal(first.begin(), "mapped", "a session")
    t.until(lambda: quotas(etcd, o).get("host2", 0) >= 4, 10, "a quota")
    t.kill(o.daemon)
    # Somebody else has the name, so this run cannot write; and what is there does not go meanwhile.
    etcd.put("{}", f"{PREFIX}/members/host1")
    etcd.put(json.dumps(entries(etcd, "capacity")["host1/rnic0"]),
             f"{LEDGER}capacity/host1/rnic0")
    o.restart()
    t.until(lambda: own(o)["offered"] >= 50 and own(o)["kept"] >= 50, 10,
            "what was offered to count")
    t.equal(count(o, "offers"), 0, "offers of this run")
    t.check([one["quota"] for one in own(o)["holders"]] in ([4], [5]), own(o))
    etcd.do("kv/deleterange", key=b64(f"{PREFIX}/members/host1"))
    ready(t, o)
    registered(t, o, seconds=30)
    t.until(lambda: count(o, "offers") >= 1, 10, "an offer of this run")
    second = Sessions(t, a, o, RAIL_A + 1)
    t.equal(second.begin(), "mapped", "another session")
    second.flow()
    t.kill(o.daemon)
    t.until(lambda: "host1/rnic0" not in entries(etcd, "capacity"), 4 * LEASE_S, "its offer to go")
    t.until(lambda: quotas(etcd, o) == {"host2": 2}, 10, "what is not in use to be given back")
    t.until(lambda: remote(a, o)["quota"] == 2, 10, "the holder to know it")
    for s in (first, second):
        s.client.close()
    t.until(lambda: quotas(etcd, o) == {}, 10, "all of it to be given back")
    t.until(lambda: not remote(a, o) or remote(a, o)["quota"] == 0, 10, "the holder to know it")
    auditor.end()


@case(timeout=120)
def a_host_is_stopped_beyond_its_lease(t):
    """Its quota is given to another one. When it goes on it uses none of it before it has one."""
    etcd, o, a, b = lab(t, sessions=8)
    auditor = Auditor(t, etcd, {"host1/rnic0": 8})
    s = Sessions(t, a, o)
    t.equal([s.begin() for _ in range(2)], ["mapped"] * 2, "sessions")
    t.until(lambda: quotas(etcd, o).get("host2", 0) >= 2, 10, "a quota")
    a.daemon.popen.send_signal(signal.SIGSTOP)
    t.until(lambda: "host2" not in quotas(etcd, o), 5 * HOLD_S, "its quota to go")
    t.until(lambda: entries(etcd, "capacity")["host1/rnic0"]["used"]["host2"] == 2, 10,
            "what it uses to stay, and no more")
    other = Sessions(t, b, o)

    def fill():
        other.begin()
        return own(o)["booked"] == 8
    t.until(fill, 60, "the other one to take the rest")
    a.daemon.popen.send_signal(signal.SIGCONT)
    t.until(lambda: remote(a, o) and ledger(a)["state"] == "shared" and
            quotas(etcd, o).get("host2") == 2, 30, "a quota for what it uses")
    t.check(count(a, "lease_lapses") >= 1, "that its lease was over")
    t.until(lambda: s.begin() == "peer-full", 10, "the RNIC is full for it")
    t.check(own(o)["booked"] == 8, own(o))
    s.flow()
    auditor.end()


@case(timeout=120)
def etcd_is_killed_and_back(t):
    """Quotas are used for a bounded time, and then decisions are as without a ledger."""
    etcd, o, a, _ = lab(t, sessions=64)
    auditor = Auditor(t, etcd, {"host1/rnic0": 64})
    s = Sessions(t, a, o)
    t.equal(s.begin(), "mapped", "a session")
    t.until(lambda: remote(a, o)["quota"] >= 4, 10, "a quota, and that the host knows it")
    etcd.kill()
    ready(t, a, "held")
    covered = count(a, "covered")
    t.equal(s.begin(), "mapped", "by the quota, without etcd")
    t.equal(count(a, "covered") - covered, 1, "covered")
    ready(t, a, "local")
    ready(t, o, "local")
    t.until(lambda: own(o)["kept"] == 0, 10, "nothing to be kept free any more")
    t.check("only what is local" in a.daemon.err(), "the log")
    covered, asked = count(a, "covered"), count(a, "asked")
    t.equal([s.begin() for _ in range(6)], ["mapped"] * 6, "as without a ledger")
    t.equal((count(a, "covered") - covered, count(a, "asked") - asked), (0, 0), "by no quota")
    s.flow()
    etcd.start()
    ready(t, a, seconds=40)
    ready(t, o, seconds=40)
    t.until(lambda: quotas(etcd, o).get("host2", 0) >= 8, 30, "a quota for all that is in use")
    t.until(lambda: own(o)["holders"] and own(o)["holders"][0]["used"] == 8, 10, "known as its")
    said = a.daemon.err()
    t.equal((said.count("etcd is away; quotas"), said.count("only what is local")), (1, 1), said)
    auditor.end()


@case(timeout=90)
def a_drained_rnic_is_not_asked(t):
    etcd, o, a, _ = lab(t, sessions=64)
    s = Sessions(t, a, o)
    t.equal(s.begin(), "mapped", "a session")
    t.until(lambda: quotas(etcd, o).get("host2", 0) >= 4, 10, "a quota")
    o.post("/v1/drain", {"device": "rnic0"})
    t.until(lambda: remote(a, o)["state"] == "draining", 10, "it to be told")
    requests = o.asked()
    t.equal([s.begin() for _ in range(3)], ["peer-full"] * 3, "a drained RNIC")
    t.equal(o.asked(), requests, "PMReq")
    t.until(lambda: quotas(etcd, o).get("host2") == 1, 10, "what is not in use to be given back")
    s.flow()
    o.post("/v1/drain", {"device": "rnic0", "on": False})
    t.until(lambda: remote(a, o)["state"] == "up", 10, "it to be told")
    t.equal(s.begin(), "mapped", "another session")


@case(timeout=60)
def kept_free_for_who_holds_it(t):
    """A host without a ledger gets what is left over, and the holder what it holds."""
    net = Lab(t, 4)
    o, a, plain, last = net.hosts
    etcd = Etcd(last)
    o.start(**config(o, [etcd.url], 8))
    a.start(**config(a, [etcd.url]))
    plain.start(**config(plain, [etcd.url], ledger=False))
    for host in (o, a):
        ready(t, host)
    t.until(lambda: remote(a, o), 10, "the offer")
    # By hand, as another tool would: a holder of five.
    etcd.put(json.dumps({"run": "0" * 16, "sessions": 5, "addresses": [a.ip]}),
             f"{LEDGER}quota/host1/rnic0/by-hand")
    t.until(lambda: [one["quota"] for one in own(o)["holders"]] == [5], 10, "it to be known")
    t.until(lambda: own(o)["offered"] <= 7, 10, "the offer")
    other = Sessions(t, plain, o)

    def fill():
        return other.begin() != "mapped" and len(other.open) == 3
    t.until(fill, 30, "the rest to be in use")
    t.equal((own(o)["booked"], own(o)["kept"]), (3, 5), "what is kept free")
    s = Sessions(t, a, o)
    t.equal([s.begin() for _ in range(5)], ["mapped"] * 5, "the holder")
    t.equal((own(o)["booked"], own(o)["kept"]), (8, 0), "then")


@case(timeout=90)
def garbage_in_a_key(t):
    """An unreadable quota counts as all that there is for who takes one, and the owner keeps
    nothing free for it; an unreadable offer is as none. One that is larger than the RNIC makes it
    full, and no more.
    """
    etcd, o, a, _ = lab(t, sessions=64)
    auditor = Auditor(t, etcd, {"host1/rnic0": 64}, ["unknown", *(f"bad{i}" for i in range(20))])
    bad = [b"", b"{", b"[]", b'"x"', b"\xff\0", b'{"run":"0000000000000000","sessions":-1,'
           b'"addresses":[]}', b'{"run":"0000000000000000","sessions":1e30,"addresses":[]}',
           b'{"run":"0000000000000000","sessions":99999999999999999999,"addresses":[]}',
           b'{"run":"0000000000000000","sessions":1,"addresses":["x"]}', b"x" * 200000]
    for i, value in enumerate(bad):
        etcd.put(value, f"{LEDGER}quota/host1/rnic0/bad{i}")
    etcd.put("{}", f"{LEDGER}quota/host1/")
    etcd.put("{}", f"{LEDGER}quota/host1/rnic0/a/b")
    etcd.put("{}", f"{LEDGER}capacity/host9/rnic0")
    etcd.put("{}", f"{LEDGER}capacity/\x1b[31m")
    etcd.put(json.dumps({"run": "0" * 16, "sessions": 2**32 - 1, "addresses": []}),
             f"{LEDGER}quota/host1/nothing/huge")
    t.until(lambda: sum(not one["readable"] for one in ledger(a)["remote"]) == 2, 10, "two bad")
    s = Sessions(t, a, o)
    t.equal([s.begin() for _ in range(3)], ["mapped"] * 3, "as without a ledger")
    t.until(lambda: count(a, "shortages") >= 1, 10, "that nothing is left, as far as is known")
    t.equal(quotas_of(etcd, "host2"), None, "what was taken")
    t.check("\x1b" not in rsock(t, a, "ledger") and "unreadable" in rsock(t, a, "ledger"), "list")
    etcd.do("kv/deleterange", key=b64(f"{LEDGER}quota/host1/"),
            range_end=b64(f"{LEDGER}quota/host10"))
    t.until(lambda: (s.begin(), quotas_of(etcd, "host2"))[1], 30, "a quota, now that all is clear")
    s.flow()
    t.until(lambda: quotas_of(etcd, "host2") > len(s.open), 20, "one ahead of need")
    more_than_there_is(t, etcd, o, a, s)
    auditor.end()


def more_than_there_is(t, etcd, o, a, s):
    """Entries that can be read: a host that nobody knows holds more than the RNIC has."""
    key = f"{LEDGER}quota/host1/rnic0/unknown"
    # For one whose addresses are not known nothing can be kept free.
    etcd.put(json.dumps({"run": "0" * 16, "sessions": 2**32 - 1, "addresses": []}), key)
    before, shortages = quotas_of(etcd, "host2"), count(a, "shortages")  # after it was written

    t.equal(s.begin(), "mapped", "by the quota that it has")
    t.until(lambda: (s.begin(), count(a, "shortages"))[1] > shortages, 30,
            "nothing to be left for another quota")
    t.check(quotas_of(etcd, "host2") <= before, "a quota beside one of all that there is")
    # For the other one all that is free is kept, and not more than that.
    etcd.put(json.dumps({"run": "0" * 16, "sessions": 1000, "addresses": ["10.77.0.200"]}), key)
    t.until(lambda: s.begin() == "peer-full", 30, "the RNIC to be full")
    now = own(o)
    t.check(now["booked"] < 64 and now["booked"] + now["kept"] >= 64, now)
    t.equal(o.device("rnic0")["sessions"], now["booked"], "sessions at the owner's")
    t.check(quotas_of(etcd, "host2") <= before, "a quota beside one of all that there is")
    t.check("unknown" in rsock(t, o, "ledger"), "who keeps it")
    s.flow()
    etcd.do("kv/deleterange", key=b64(key))
    t.until(lambda: (s.begin(), quotas_of(etcd, "host2"))[1] > len(s.open), 30, "a quota again")
    s.flow()


def quotas_of(etcd, holder):
    entry = entries(etcd, "quota").get(f"host1/rnic0/{holder}")
    return entry and entry["sessions"]


@case(timeout=60)
def answers_that_are_lost(t):
    """A transaction of which no answer comes may have been executed or not."""
    net = Lab(t, 3)
    o, a, last = net.hosts
    etcd = Etcd(last)
    proxy = Proxy(last, 2479, (last.ip, 2379))
    o.start(**config(o, [etcd.url], 64))
    a.start(**config(a, [proxy.url]))
    auditor = Auditor(t, etcd, {"host1/rnic0": 64})
    for host in (o, a):
        ready(t, host)
    t.until(lambda: remote(a, o), 10, "the offer")
    s = Sessions(t, a, o)
    for _ in range(2):
        proxy.hold = b"request_put"
        t.equal([s.begin() for _ in range(2)], ["mapped"] * 2, "sessions meanwhile")
        t.until(lambda: proxy.held, 10, "a transaction to be held back")
        failures = count(a, "failures")
        t.until(lambda f=failures: count(a, "failures") > f, 10, "it to be given up")
        proxy.hold, proxy.held = None, 0
        t.until(lambda: quotas(etcd, o).get("host2", 0) >= len(s.open), 20, "a quota")
        t.until(lambda: remote(a, o)["quota"] == quotas(etcd, o)["host2"], 20,
                "the host to know what it holds")
    s.flow()
    auditor.end()


@case(timeout=60)
def another_one_is_faster(t):
    """Of two transactions that have read the same, the second one is not executed."""
    net = Lab(t, 3)
    o, a, last = net.hosts
    etcd = Etcd(last)
    proxy = Proxy(last, 2479, (last.ip, 2379))
    o.start(**config(o, [etcd.url], 64))
    slow = config(a, [proxy.url])
    slow["cluster"]["timeout"] = "20s"
    a.start(**slow)
    for host in (o, a):
        ready(t, host)
    t.until(lambda: remote(a, o), 10, "the offer")
    auditor = Auditor(t, etcd, {"host1/rnic0": 64})
    s = Sessions(t, a, o)
    proxy.hold = b"request_put"
    t.equal(s.begin(), "mapped", "a session")
    t.until(lambda: proxy.held, 10, "its transaction to be held back")
    etcd.put(json.dumps({"run": "0" * 16, "sessions": 63, "addresses": []}),
             f"{LEDGER}quota/host1/rnic0/by-hand")
    proxy.hold = None
    t.until(lambda: count(a, "beaten") >= 1 and count(a, "shortages") >= 1, 10, "it to be beaten")
    t.check(quotas(etcd, o).get("host2", 0) <= 1, quotas(etcd, o))
    s.flow()
    auditor.end()


@case(timeout=180)
def the_leader_of_three_is_killed(t):
    """Two hosts begin and end sessions all the time, while the node of etcd that leads is killed,
    and comes back; twice.
    """
    net = Lab(t, 6)
    o, a, b, *nodes = net.hosts
    etcd = EtcdCluster(nodes)
    urls = [node.url for node in etcd.nodes]
    for i, host in enumerate((o, a, b)):
        host.start(**config(host, urls[i:] + urls[:i], 16 if host is o else 100))
    for host in (o, a, b):
        registered(t, host)
        ready(t, host)
    for host in (a, b):
        t.until(lambda h=host: remote(h, o), 10, "the offer")
    auditor = Auditor(t, etcd, {"host1/rnic0": 16})
    both = Sessions(t, a, o), Sessions(t, b, o)

    def churn(seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for s in both:
                s.begin()
                if len(s.open) > 4:
                    s.end()
                t.check(own(o)["booked"] <= 16, own(o))
    for _ in range(2):
        churn(3)
        leader = t.until(etcd.leader, 20, "a leader")
        leader.kill()
        churn(6)
        etcd.start()
        for host in (o, a, b):
            ready(t, host, seconds=40)
    t.until(lambda: sum(quotas(etcd.any(), o).values()) >= sum(len(s.open) for s in both), 30,
            "quotas for what is in use")
    for s in both:
        s.flow()
        while s.open:
            s.end()
    t.until(lambda: quotas(etcd.any(), o) == {}, 40, "all of it to be given back")
    auditor.end()


@case(timeout=60)
def a_large_value_at_the_owner_s_key(t):
    """It is not fetched; the owner writes over it, and keeps nothing free for it."""
    etcd, o, a, _ = lab(t, sessions=64)
    for _ in range(2):
        etcd.put("x" * 500_000, f"{LEDGER}capacity/host1/rnic0")
        t.until(lambda: not remote(a, o)["readable"], 10, "the other host to see it")
        registered(t, o)
        t.stop(o.daemon, signal.SIGTERM)
        o.restart()
        t.until(lambda: remote(a, o) and remote(a, o)["readable"], 20, "an offer again")
    t.until(lambda: entries(etcd, "capacity")["host1/rnic0"]["sessions"] == 56, 10, "its offer")
    s = Sessions(t, a, o)
    t.until(lambda: s.begin() == "mapped" and len(s.open) > 8, 30, "more than the reserve")


@case(timeout=90)
def a_watch_that_is_behind(t):
    """A host that has not heard that an offer is gone does not ask for it again and again."""
    net = Lab(t, 3)
    o, a, last = net.hosts
    etcd = Etcd(last)
    proxy = Proxy(last, 2479, (last.ip, 2379))
    o.start(**config(o, [etcd.url], 64))
    a.start(**config(a, [proxy.url]))
    for host in (o, a):
        ready(t, host)
    t.until(lambda: remote(a, o), 10, "the offer")
    t.equal(Sessions(t, a, o).begin(), "mapped", "a session")
    t.until(lambda: quotas(etcd, o), 10, "a quota")
    proxy.loses = True
    t.kill(o.daemon)
    t.until(lambda: "host1/rnic0" not in entries(etcd, "capacity"), 20, "its offer to be gone")
    before = proxy.requests
    time.sleep(4)
    t.check(proxy.requests - before < 100, f"{proxy.requests - before} requests")
    proxy.loses = False
    t.until(lambda: (remote(a, o) or {}).get("state") != "up", 30, "to know it")


@case(timeout=60)
def another_one_has_the_name(t):
    """A daemon whose name another one holds keeps nothing free for what that one offers."""
    etcd, o, _, twin = lab(t, sessions=64)
    t.stop(twin.daemon)
    twin.start(**config(twin, [etcd.url], 64, node="host1"))
    t.until(lambda: own(twin)["kept"] > 0, 10, "what a former run may have offered to be kept free")
    t.until(lambda: own(twin)["kept"] == 0, 30, "nothing to be kept free any more")
    t.equal(own(o)["offered"], 56, "of the one that has the name")


@case(timeout=60)
def an_rnic_that_is_renamed(t):
    """Its address is the new one's at once, and what is used there is counted."""
    _, o, a, _ = lab(t, sessions=64)
    o.write_config(**{**o.config, "rnics": [{"name": "other", "addresses": [o.ip],
                                             "sessions": 64}]})
    o.post("/v1/reload", {})

    def known():
        return {one["rnic"]: one for one in ledger(a)["remote"] if one["rnic"].startswith("host1")}
    t.until(lambda: known().get("host1/other", {}).get("state") == "up" and
            known().get("host1/rnic0", {}).get("state") != "up", 15, "both to be known")
    time.sleep(0.3)
    s = Sessions(t, a, o)
    t.equal(s.begin(), "mapped", "a session")
    t.equal(known()["host1/other"]["used"], 1, "where it is counted")
    s.flow()


@case(timeout=60)
def without_the_key_there_is_none(t):
    net = Lab(t, 3)
    o, a, last = net.hosts
    etcd = Etcd(last)
    for host in (o, a):
        host.start(**config(host, [etcd.url], 8 if host is o else 100, ledger=False))
        registered(t, host)
    s = Sessions(t, a, o)
    t.equal([s.begin() for _ in range(8)], ["mapped"] * 8, "all sessions")
    t.equal(s.begin(), "peer-policy", "one too many: the other host says so")
    t.equal(entries(etcd, "quota") | entries(etcd, "capacity"), {}, "in etcd")
    t.equal(state(a)["ledger"], None, "the status")
    t.check("no ledger" in rsock(t, a, "ledger", expect=1), "rsock policy ledger")


if __name__ == "__main__":
    sys.exit(main())
