#!/usr/bin/python3
"""The members of a cluster: each rsockd has an entry in a real etcd, bound to a lease, by which
operators see which hosts there are, and which revision of the document each of them runs.
"""
import base64
import json
import signal
import sys
import time

from etcdlab import PORT, PREFIX, Etcd, Proxy, b64
from lib.harness import case, main
from net_cluster import document, push, rsock, runs, state
from net_rsockd import serving
from netlab import Lab, ip

LEASE_S = 2  # the least that is allowed


def member(host, url, **more):
    return serving(host, cluster={"etcd": [url], "prefix": PREFIX, "lease": f"{LEASE_S}s"}, **more)


def cluster(t, agents=2):
    """etcd on the last host, and agents on the others, which are entered."""
    lab = Lab(t, agents + 1)
    etcd = Etcd(lab.hosts[-1])
    for host in lab.hosts[:-1]:
        host.start(**member(host, etcd.url))
    for host in lab.hosts[:-1]:
        registered(t, host)
    return etcd, *lab.hosts[:-1]


def registered(t, host, yes=True, seconds=15):
    t.until(lambda: state(host)["member"]["registered"] == yes, seconds,
            f"host {host.number} to be {'' if yes else 'no '}member")


def members(host):
    """The rows of the list, by name."""
    return {one["node"]: one for one in host.get("/v1/policy/members")["members"]}


def seen(t, host, *names, seconds=15):
    """Waits until the host sees these members, and no others."""
    t.until(lambda: sorted(members(host)) == sorted(names), seconds,
            f"host {host.number} to see {names}")


def key(host):
    return f"{PREFIX}/members/host{host.number}"


def entry(etcd, name):
    """The entry of that key as etcd has it, or None."""
    found = etcd.do("kv/range", key=b64(name)).get("kvs")
    return found[0] if found else None


def count(host, name):
    return host.figure(f"cluster_member_{name}_total")


@case(timeout=60)
def each_is_seen_with_its_revision(t):
    etcd, a, b = cluster(t)
    seen(t, a, "host1", "host2")
    first = members(b)["host1"]
    t.equal((first["readable"], first["revision"], first["current"], first["refused"]),
            (True, 0, True, None), "before there is a document")
    t.equal(first["rnics"], [{"name": "rnic0", "state": "up", "addresses": [a.ip, a.ip6],
                              "bps": 25000000000, "sessions": 100000}], "RNICs")
    t.check("0.0.0.0:3935" in first["listens"] and first["pma"] == [] and first["version"], first)
    t.equal(count(a, "writes"), 1, "writes while nothing changes")
    revision = push(a, document())
    t.until(lambda: [(one["revision"], one["current"]) for one in members(b).values()] ==
            [(revision, True)] * 2, 10, "both to say that they run it")
    # One that only the first host can take.
    a.write_config(**member(a, etcd.url, rnics=[{"name": "rnic0", "addresses": [a.ip],
                                                 "group": "fast"}]))
    a.post("/v1/reload", {})
    newest = push(a, json.dumps({"services": [{"name": "shared", "ports": ["7002"]}],
                                 "rules": [{"name": "r", "map": {"group": "fast"}}]}))
    runs(t, a, newest)
    t.until(lambda: members(a)["host2"]["refused"] and members(a)["host1"]["current"], 10,
            "the other host to say that it refuses it, and the first one that it runs it")
    rows = members(a)
    t.equal((rows["host1"]["revision"], rows["host1"]["current"]), (newest, True), rows)
    t.equal((rows["host2"]["revision"], rows["host2"]["current"]), (revision, False), rows)
    t.equal(rows["host2"]["refused"]["revision"], newest, rows)
    t.check("fast" in rows["host2"]["refused"]["why"], rows)
    listed = json.loads(rsock(t, b, "members", "--json"))
    t.equal((listed["revision"], listed["more"], len(listed["members"])), (newest, False, 2),
            listed)
    said = rsock(t, b, "members")
    t.check(f"refuses revision {newest}: " in said and "rnic0" in said, said)
    t.check(any(line.startswith("host1") and f" {newest} " in line and " yes " in line
                for line in said.splitlines()), said)
    t.check("root" in rsock(t, a, "members", user=65534, expect=1), "another user")
    # What was written meanwhile has not put off what keeps the leases alive.
    t.equal((count(a, "lapses"), count(b, "lapses")), (0, 0), "leases that have ended")


@case(timeout=60)
def a_device_that_goes_is_told(t):
    etcd, a, b = cluster(t)
    ip("-n", a.ns, "address", "add", "10.78.0.1/24", "dev", "lan")
    more = {"name": "rnic1", "addresses": ["10.78.0.1"]}
    a.write_config(**member(a, etcd.url, rnics=[*a.config["rnics"], more]))
    a.post("/v1/reload", {})

    def states():
        return [(one["name"], one["state"]) for one in members(b)["host1"]["rnics"]]
    t.until(lambda: states() == [("rnic0", "up"), ("rnic1", "up")], 10, "the new RNIC to be told")
    t.until(lambda: count(a, "writes") == 2, 10, "one write for one change")
    ip("-n", a.ns, "address", "del", "10.78.0.1/24", "dev", "lan")
    t.until(lambda: states() == [("rnic0", "up"), ("rnic1", "down")], 10, "its end to be told")
    t.until(lambda: count(a, "writes") == 3, 10, "one write for one change")


@case(timeout=60)
def one_that_is_stopped_disappears_and_comes_back(t):
    etcd, a, b = cluster(t)
    first = entry(etcd, key(b))
    b.daemon.popen.send_signal(signal.SIGSTOP)
    seen(t, a, "host1")
    b.daemon.popen.send_signal(signal.SIGCONT)
    seen(t, a, "host1", "host2")
    t.check(entry(etcd, key(b))["lease"] != first["lease"], "another lease")
    t.equal(entry(etcd, key(b))["value"], first["value"], "the same run of the daemon")
    registered(t, b)
    t.check(count(b, "lapses") >= 1 and count(b, "grants") >= 2, "its leases")
    t.check(count(a, "renewals") >= 2, "the other one has kept its lease alive")


@case(timeout=60)
def one_that_is_killed_disappears(t):
    _, a, b = cluster(t)
    began = time.monotonic()
    t.kill(b.daemon)
    seen(t, a, "host1", seconds=2 * LEASE_S)
    # A new run under the same name is entered as soon as the lease of the former one is over; that
    # it has to wait is nothing to be logged.
    t.kill(a.daemon)
    a.restart()
    registered(t, a)
    seen(t, a, "host1")
    t.check("holds the name" not in a.daemon.err(), a.daemon.err())
    t.check(time.monotonic() - began < 20, "how long it took")


@case(timeout=60)
def one_that_ends_is_gone_at_once(t):
    """Its lease is revoked; without an etcd that answers it does not wait for that."""
    lab = Lab(t, 3)
    etcd = Etcd(lab.hosts[-1])
    a, b = lab.hosts[:2]
    way = Proxy(lab.hosts[-1], 4000, (etcd.host.ip, PORT))
    b.start(**serving(b, cluster={"etcd": [way.url], "prefix": PREFIX, "lease": "1min"}))
    a.start(**member(a, etcd.url))
    registered(t, b)
    seen(t, a, "host1", "host2")
    t.stop(b.daemon, signal.SIGTERM)
    t.equal(b.daemon.popen.returncode, 0, "its exit status")
    t.equal(entry(etcd, key(b)), None, "its entry, whose lease was of a minute")
    b.restart()
    registered(t, b)
    way.silent = True
    began = time.monotonic()
    t.stop(b.daemon, signal.SIGTERM)
    t.equal(b.daemon.popen.returncode, 0, "its exit status")
    t.check(time.monotonic() - began < 2, f"it took {time.monotonic() - began} s to end")
    t.check(entry(etcd, key(b)), "what was not revoked")


@case(timeout=60)
def etcd_is_restarted(t):
    etcd, a, b = cluster(t)
    for is_long in (False, True):  # shorter than a lease, and longer
        etcd.kill()
        if is_long:
            registered(t, a, False)
            registered(t, b, False)
            status, answer = a.ask("GET", "/v1/policy/members")
            t.check(status == 503 and answer["error"], answer)
        etcd.start()
        for host in (a, b):
            registered(t, host)
            seen(t, host, "host1", "host2")
    # A store that knows nothing of leases and entries.
    etcd.kill()
    etcd.data = t.path("etcd-anew")
    etcd.start()
    for host in (a, b):
        seen(t, host, "host1", "host2")
        t.until(lambda host=host: count(host, "lapses"), 10, "the lease to be missed")
    t.check("not entered" not in a.daemon.err() + b.daemon.err(), a.daemon.err())


@case(timeout=60)
def a_name_is_held_by_one(t):
    lab = Lab(t, 3)
    etcd = Etcd(lab.hosts[-1])
    a, b = lab.hosts[:2]
    a.start(**member(a, etcd.url, node="same"))
    registered(t, a)
    first = entry(etcd, f"{PREFIX}/members/same")
    b.start(**member(b, etcd.url, node="same"))
    t.until(lambda: "holds the name same" in b.daemon.err(), 20, "it to be logged")
    t.until(lambda: count(b, "conflicts") >= 4, 20, "it to try again")
    t.equal(b.daemon.err().count("holds the name"), 1, b.daemon.err())
    now = state(b)["member"]
    t.check(not now["registered"] and "holds the name same" in now["error"], now)
    t.check("holds the name same" in rsock(t, b, "show"), "show")
    t.equal(entry(etcd, f"{PREFIX}/members/same"), first, "the entry of the first")
    t.check(members(b)["same"]["rnics"][0]["addresses"][0] == a.ip, "whose it is")
    t.stop(a.daemon, signal.SIGTERM)
    registered(t, b, seconds=20)
    t.check(members(b)["same"]["rnics"][0]["addresses"][0] == b.ip, "it has the name now")
    t.equal(state(b)["member"]["error"], None, "the error is over")
    t.check("entered as same" in b.daemon.err(), b.daemon.err())


@case(timeout=60)
def an_entry_that_is_deleted_is_written_again(t):
    etcd, a = cluster(t, agents=1)
    etcd.do("kv/deleterange", key=b64(key(a)))
    t.until(lambda: entry(etcd, key(a)), 15, "the entry")
    registered(t, a)
    t.equal(count(a, "lapses"), 0, "leases that were lost")
    # Overwritten by another tool: it is left alone until somebody deletes it.
    etcd.put("mine", key(a))
    registered(t, a, False)
    t.until(lambda: count(a, "conflicts") >= 2, 20, "it to try again")
    t.equal(entry(etcd, key(a))["value"], b64("mine"), "what another one has written")
    etcd.do("kv/deleterange", key=b64(key(a)))
    registered(t, a, seconds=20)


GARBAGE = [b"", b"\0", b"\xff\xfe", b"5", b"null", b"[]", b"{}", b"{" * 3000, b"[" * 3000,
           b'{"node":"x"}', b"x" * 200000, b'{"a":"' + b"y" * 70000 + b'"}']


@case(timeout=60)
def garbage_among_the_members(t):
    etcd, a, b = cluster(t)
    good = members(a)["host2"]
    whole = json.loads(base64.b64decode(entry(etcd, key(b))["value"]))
    for number, value in enumerate(GARBAGE):
        etcd.put(value, f"{PREFIX}/members/x{number:02d}")
    # What only looks like an entry; each with one thing that is wrong.
    wrong = [{"node": "host2"}, {"version": 5}, {"version": "\x1b[31m"}, {"rnics": {}},
             {"rnics": [5]}, {"rnics": [{"name": "r"}]}, {"rnics": whole["rnics"] * 65},
             {"listens": "x"}, {"listens": ["x"] * 33}, {"revision": -1}, {"revision": "1"},
             {"refused": "x"}, {"refused": {"revision": 1, "why": "a\nb"}}, {"started": "x" * 600}]
    for number, change in enumerate(wrong):
        name = f"y{number:02d}"
        etcd.put(json.dumps({**whole, "node": name, **change}), f"{PREFIX}/members/{name}")
    etcd.put(json.dumps({**whole, "node": "z", "new": [1]}), f"{PREFIX}/members/z")
    etcd.put("x", f"{PREFIX}/members/")
    etcd.put("x", f"{PREFIX}/members/\x1b[2J")
    rows = members(a)
    t.equal(len(rows), len(GARBAGE) + len(wrong) + 5, sorted(rows))
    t.equal(rows["host2"], good, "an entry among garbage")
    t.equal(sorted(name for name, row in rows.items() if row["readable"]), ["host1", "host2", "z"],
            "entries that are valid, one of them with more than we know")
    said = rsock(t, a, "members")
    t.check("\x1b" not in said and said.count("unreadable") == len(rows) - 3, said)
    t.check(a.daemon.popen.poll() is None, "the daemon runs")


if __name__ == "__main__":
    sys.exit(main())
