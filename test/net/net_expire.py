#!/usr/bin/python3
"""The cluster's document while etcd is away: it is in force for a time that is configured, also
over a restart of rsockd, which keeps it on the disk; then each host's own file is. etcd comes back.
"""
import json
import os
import signal
import sys
import time

from etcdlab import CURRENT, PORT, PREFIX, Etcd, Proxy, b64
from lib.harness import case, main
from net_cluster import SHARED, cluster, document, has, member, push, rsock, runs, state
from net_local import BOTH, until_direct, users
from net_rsockd import SERVICE, asking
from netlab import Lab

GROUP_RULE = json.dumps({"services": [{"name": "shared", "ports": ["7002"]}],
                         "rules": [{"name": "r", "map": {"group": "fast"}}]})


def file_of(host):
    return os.path.join(host.state, "document")


def kept(t, host, revision):
    t.until(lambda: state(host)["kept"] == revision, 10, f"revision {revision} to be on the disk")


def is_missed(t, host):
    t.until(lambda: not state(host)["reached"], 10, "etcd to be missed")


def expires(t, host, seconds):
    t.until(lambda: state(host)["expired"], seconds, "the document to expire")
    has(t, host, SERVICE)
    has(t, host, SHARED, False)
    t.equal((state(host)["revision"], host.figure("cluster_expired")), (0, 1), "in force")


def restarted(t, host, how=signal.SIGKILL):
    t.stop(host.daemon, how) if how != signal.SIGKILL else t.kill(host.daemon)
    host.restart()


def one(t, expire="1h", **more):
    """A host with the document, which is on its disk, and etcd; and the revision."""
    etcd, a = cluster(t, agents=1, expire=expire, **more)
    revision = push(a, document())
    runs(t, a, revision)
    kept(t, a, revision)
    return etcd, a, revision


@case(timeout=60)
def a_start_without_etcd(t):
    os.chmod(t.tmp, 0o755)
    lab = Lab(t, 2)
    a, etcd = lab.hosts[0], Etcd(lab.hosts[1])
    os.makedirs(a.state)
    os.chown(a.state, 65534, 65534)
    a.start(**{**member(a, etcd.url), "user": "nobody"})
    first = push(a, document())
    runs(t, a, first)
    kept(t, a, first)
    made = os.stat(file_of(a))
    t.equal((made.st_uid, made.st_mode & 0o777), (65534, 0o600), "owner and mode")
    etcd.kill()
    for how in (signal.SIGKILL, signal.SIGTERM):
        restarted(t, a, how)
        has(t, a, SHARED)
        has(t, a, SERVICE, False)
        with open(f"/proc/{a.daemon.pid}/status") as file:
            t.check("\nSeccomp:\t2\n" in file.read(), "the filter is in force")
        now = state(a)
        t.equal((now["revision"], now["newest"], now["kept"], now["reached"], now["expired"]),
                (first, first, first, False, False), now)
        t.check(f"revision {first} of the cluster's document, which was kept, is in force"
                in a.daemon.err(), a.daemon.err())
    t.until(lambda: "the document expires in" in rsock(t, a, "show"), 10, "show to tell the time")
    etcd.start()
    t.until(lambda: state(a)["reached"], 15, "etcd to be reached")
    t.equal(a.figure("cluster_document_applied_total"), 0, "it is the same document")
    second = etcd.put(document(7001))
    runs(t, a, second)
    kept(t, a, second)
    has(t, a, 7001)
    t.equal(os.listdir(a.state), ["document"], "files")


@case(timeout=60)
def the_time_is_over(t):
    """What runs goes on: a stream between two users, and what was promised to another host."""
    os.chmod(t.tmp, 0o755)
    lab = Lab(t, 3)
    a, b, etcd = *lab.hosts[:2], Etcd(lab.hosts[2])
    shared = json.dumps({"services": [{"name": "shared", "ports": [str(SHARED)],
                                       "pm-time": "60s"}]})
    a.start(**member(a, etcd.url, expire="3s", vouch=BOTH))
    b.start(**asking(b))
    revision = push(a, shared)
    runs(t, a, revision)
    server, client = users(a)
    client.connect(server)
    until_direct(t, a, client, server, 2)
    t.equal(b.map(a, SHARED)["outcome"], "mapped", "a session")
    promised = a.device("rnic0")["promised"]
    t.check(promised, "it is promised")

    def go_on():
        t.equal(a.device("rnic0")["promised"], promised, "what was promised stays so")
        client.ping(server)
        t.equal(a.streams("direct"), 2, "ends that are direct")
    began = time.monotonic()
    t.until(lambda: time.monotonic() > began + 3.5, 10, "that time to be over")
    t.equal((a.figure("cluster_document_expirations_total"), state(a)["expired"]), (0, False),
            "while etcd answers")
    etcd.kill()
    expires(t, a, 10)
    t.check(a.figure("cluster_last_contact_seconds") >= 3, a.metrics())
    t.equal(a.figure("cluster_document_expirations_total"), 1, "how often")
    t.equal(a.daemon.err().count(f"revision {revision} of the cluster's document has expired"), 1,
            a.daemon.err())
    t.check("the document has expired" in rsock(t, a, "show"), "show")
    go_on()
    etcd.start()
    runs(t, a, revision)
    has(t, a, SHARED)
    t.equal((state(a)["expired"], a.figure("cluster_expired")), (False, 0), "it is back")
    t.check("expired" not in rsock(t, a, "show"), "show")
    go_on()


@case(timeout=60)
def an_etcd_that_says_nothing_for_a_while(t):
    """It is reached, but a call lasts longer than the document does without it."""
    lab = Lab(t, 2)
    a, etcd = lab.hosts[0], Etcd(lab.hosts[1])
    way = Proxy(lab.hosts[1], 4000, (etcd.host.ip, PORT))
    a.start(**member(a, way.url, expire="2s", timeout="30s"))
    revision = push(a, document())
    runs(t, a, revision)
    way.hold = b"/v3/kv/range"
    expires(t, a, 10)
    t.equal((state(a)["reached"], way.held > 0), (True, True), "a call is under way")
    way.hold = None
    runs(t, a, revision)
    has(t, a, SHARED)
    t.equal(state(a)["expired"], False, "it is back")
    t.check("not reached" not in a.daemon.err(), a.daemon.err())


@case(timeout=60)
def a_restart_does_not_begin_the_time_anew(t):
    etcd, a, revision = one(t, "5s")
    etcd.kill()
    gone = time.monotonic()
    for after in (1.5, 3):
        t.until(lambda after=after: time.monotonic() > gone + after, 10, "a part of it to be over")
        restarted(t, a)
        has(t, a, SHARED)
        t.check(state(a)["last_contact_s"] >= int(after), state(a))
    expires(t, a, 10)
    t.check(time.monotonic() < gone + 7, "5 s after etcd was heard, not after the start")
    kept(t, a, revision)
    restarted(t, a)
    expires(t, a, 1)
    t.check(f"revision {revision} of the cluster's document, which was kept, has expired"
            in a.daemon.err(), a.daemon.err())
    # An operator who needs it for longer.
    a.write_config(**member(a, etcd.url, expire="lasting"))
    restarted(t, a)
    has(t, a, SHARED)
    t.check(state(a)["expire_s"] is None, state(a))
    t.until(lambda: "does not expire" in rsock(t, a, "show"), 10, "show")
    etcd.start()
    t.until(lambda: state(a)["reached"], 15, "etcd to be reached")
    t.equal(state(a)["revision"], revision, "the same document")


@case(timeout=60)
def what_cannot_be_used(t):
    etcd, a, _ = one(t)
    etcd.kill()
    t.kill(a.daemon)
    path = file_of(a)
    with open(path, "rb") as file:
        good = file.read()

    def refused(says):
        a.restart()
        has(t, a, SERVICE)
        t.check(f"{path}: " in a.daemon.err() and says in a.daemon.err(),
                f"{says}: {a.daemon.err()}")
        t.equal((state(a)["revision"], state(a)["kept"], state(a)["expired"]), (0, 0, False), says)
        t.kill(a.daemon)
    for bad, says in ((good[:-1], "hash"), (good[:40], "short"), (b"", "short"),
                      (b"x" * 200, "no file of this kind"), (good + b"x", "hash"),
                      (good[:8] + b"\x09" + good[9:], "version"),
                      (good[:-5] + bytes([good[-5] ^ 1]) + good[-4:], "hash"),
                      (good + b" " * 400000, "large")):
        with open(path, "wb") as file:
            file.write(bad)
        refused(says)
    for make in (lambda: os.mkdir(path), lambda: os.symlink("/etc/passwd", path),
                 lambda: os.mkfifo(path)):
        os.unlink(path) if not os.path.isdir(path) else os.rmdir(path)
        make()
        refused("not used")
    os.unlink(path)
    with open(path, "wb") as file:
        file.write(good)
    for url, prefix in ((etcd.url, f"{PREFIX}2"), (etcd.url.replace("2379", "2378"), PREFIX)):
        keys = member(a, url)
        keys["cluster"]["prefix"] = prefix
        a.write_config(**keys)
        refused("another cluster")
    a.write_config(**member(a, etcd.url.replace("2379", "2378"), etcd.url))
    a.restart()
    has(t, a, SHARED)  # an endpoint was added
    t.stop(a.daemon)
    a.write_config(**member(a, etcd.url))
    etcd.start()
    a.restart()
    runs(t, a, push(a, document(7001)))


@case(timeout=60)
def what_the_host_does_not_accept(t):
    """It is tried again when the host's own file changes; and that has to be valid alone."""
    lab = Lab(t, 2)
    a, etcd = lab.hosts[0], Etcd(lab.hosts[1])
    fast = [{"name": "rnic0", "addresses": [a.ip], "group": "fast"}]
    a.start(**member(a, etcd.url, rnics=fast))
    revision = push(a, GROUP_RULE)
    runs(t, a, revision)
    kept(t, a, revision)
    wrong = [{"name": "x", "when": {"functions": ["none"]}}]
    a.write_config(**member(a, etcd.url, rnics=fast, rules=wrong))
    t.check("none" in a.post("/v1/reload", {}, status=409)["error"], "it would be needed alone")
    etcd.kill()
    a.write_config(**member(a, etcd.url))
    restarted(t, a)
    has(t, a, SERVICE)
    t.equal((state(a)["revision"], state(a)["newest"]), (0, revision), state(a))
    t.check("fast" in state(a)["refused"], state(a))
    t.check(f"revision {revision} of the cluster's document is refused" in a.daemon.err(),
            a.daemon.err())
    a.write_config(**member(a, etcd.url, rnics=fast))
    a.post("/v1/reload", {})
    runs(t, a, revision)
    t.equal((state(a)["refused"], state(a)["reached"]), (None, False), state(a))
    has(t, a, 7002)


@case(timeout=60)
def a_document_that_is_deleted(t):
    etcd, a, revision = one(t)
    etcd.do("kv/deleterange", key=b64(CURRENT))
    t.until(lambda: "deleted" in (state(a)["refused"] or ""), 10, "the deletion to be seen")
    t.equal(state(a)["revision"], revision, "it stays in force")
    kept(t, a, 0)
    etcd.kill()
    is_missed(t, a)
    restarted(t, a)
    has(t, a, SERVICE)
    etcd.start()
    # While no daemon runs.
    revision = etcd.put(document(7001))
    runs(t, a, revision)
    kept(t, a, revision)
    t.stop(a.daemon)
    etcd.do("kv/deleterange", key=b64(CURRENT))
    etcd.kill()
    a.restart()
    has(t, a, 7001)
    etcd.start()
    runs(t, a, 0)
    has(t, a, SERVICE)
    t.check("has no document any more" in a.daemon.err(), a.daemon.err())
    t.equal((state(a)["refused"], state(a)["expired"]), (None, False), state(a))
    kept(t, a, 0)


@case(timeout=60)
def another_document_of_the_same_number(t):
    """An etcd that has lost its data begins to count anew."""
    lab = Lab(t, 2)
    a, etcd = lab.hosts[0], Etcd(lab.hosts[1])
    for _ in range(3):
        revision = etcd.put(document())
    a.start(**member(a, etcd.url))
    runs(t, a, revision)
    kept(t, a, revision)
    t.stop(a.daemon)
    etcd.kill()
    os.rename(etcd.data, f"{etcd.data}.lost")
    etcd.start()
    for _ in range(3):
        again = etcd.put(document(7001))
    t.equal(again, revision, "the numbers are the same")
    a.restart()
    t.until(lambda: state(a)["reached"] and a.figure("cluster_document_applied_total") == 1, 10,
            "the other one to be taken")
    has(t, a, 7001)


@case(timeout=60)
def nowhere_to_keep_it(t):
    os.chmod(t.tmp, 0o755)
    lab = Lab(t, 2)
    a, etcd = lab.hosts[0], Etcd(lab.hosts[1])
    a.start(**member(a, etcd.url, state="/nowhere/at/all"))
    runs(t, a, push(a, document()))
    t.check("/nowhere/at/all" in a.daemon.err(), a.daemon.err())
    t.check("No such file" in state(a)["kept_error"] and not state(a)["kept"], state(a))
    t.stop(a.daemon)
    os.makedirs(a.state, exist_ok=True)
    a.start(**{**member(a, etcd.url), "user": "nobody"})  # the directory belongs to another user
    revision = push(a, document(7001))
    runs(t, a, revision)
    t.until(lambda: state(a)["kept_error"], 10, "a failure")
    t.equal(a.daemon.err().count(f"{file_of(a)} cannot be written"), 1, a.daemon.err())
    t.check("is not kept" in rsock(t, a, "show"), "show")
    t.check(a.figure("cluster_document_unkept_total") > 0, "failures")
    os.chown(a.state, 65534, 65534)
    kept(t, a, revision)
    t.equal(state(a)["kept_error"], None, "it is kept now")


if __name__ == "__main__":
    sys.exit(main())
