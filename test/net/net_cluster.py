#!/usr/bin/python3
"""The configuration that the hosts of a cluster share: a document in a real etcd, which rsockd
reads, watches, and takes whole or not at all.
"""
import json
import os
import sys
import threading
import time

from cluster_audit import Stream
from etcdlab import CURRENT, PORT, PREFIX, Certificates, Etcd, Liar, Proxy, answer, b64
from lib.harness import case, main
from net_rsockd import SERVICE, serving
from netlab import Lab

SHARED = 7000  # a service port of the documents


def document(port=SHARED, **more):
    """A document with one service; JSON is YAML."""
    return json.dumps({"services": [{"name": "shared", "ports": [str(port)]}], **more}) + "\n"


def member(host, *urls, **more):
    """A host's own configuration, with a cluster."""
    keys = {key: more.pop(key) for key in ("tls", "user", "password-file", "timeout", "expire",
                                          "history", "order") if key in more}
    return serving(host, cluster={"etcd": list(urls), "prefix": PREFIX, "order": "listed", **keys},
                   **more)


def cluster(t, agents=2, **more):
    """etcd on the last host, and agents on the others."""
    lab = Lab(t, agents + 1)
    etcd = Etcd(lab.hosts[-1])
    for host in lab.hosts[:-1]:
        host.start(**member(host, etcd.url, **more))
    return etcd, *lab.hosts[:-1]


def state(host):
    return host.get("/v1/status")["cluster"]


def runs(t, host, revision, seconds=15):
    t.until(lambda: state(host)["revision"] == revision, seconds,
            f"host {host.number} to run revision {revision}")


def has(t, host, port, yes=True):
    """Whether a service of that port is in force on the host."""
    verdict = host.post("/v1/explain", {"side": "ap", "ip": host.ip, "port": port,
                                        "from": host.ip})["verdict"]
    t.equal(verdict == "map", yes, f"port {port} on host {host.number}: {verdict}")


def push(host, text, status=200, **more):
    return host.post("/v1/policy/push", {"text": text, **more}, status=status).get("revision")


def rsock(t, host, *words, expect=0, user=None):
    proc = host.run([t.tool, "policy", *words[:1], "--socket", host.control, *words[1:]],
                    user=user)
    t.wait(proc, 20, expect)
    return proc.out() + proc.err()


def file_with(t, text):
    path = t.path("document.yaml")
    with open(path, "w") as file:
        file.write(text)
    return path


@case(timeout=60)
def push_reaches_every_host(t):
    """The tool on one host, and what the other one does; history, diff, rollback, show."""
    _, a, b = cluster(t)
    has(t, b, SERVICE)
    t.check("there is no former" in rsock(t, a, "diff", expect=3), "diff of nothing")
    said = rsock(t, a, "push", file_with(t, document()), "--note", "the first")
    first = int(said.split()[1])
    for host in (a, b):
        runs(t, host, first)
        has(t, host, SHARED)
        has(t, host, SERVICE, False)
        t.equal(host.figure("cluster_revision"), first, "the metric")
    second = int(rsock(t, b, "push", file_with(t, document(7001)), "--base", first).split()[1])
    runs(t, a, second)
    t.check(f"{second} is the current one" in rsock(t, a, "push", file_with(t, document()),
                                                    "--base", first, expect=1), "an old base")
    listed = json.loads(rsock(t, b, "history", "--json"))
    t.equal([(one["revision"], one["current"]) for one in listed["revisions"]],
            [(second, True), (first, False)], "history")
    t.check("user 0 on host1: the first" in listed["revisions"][1]["by"], listed)
    t.check("the first" in rsock(t, b, "history"), "history in words")
    difference = rsock(t, a, "diff")
    t.check("+" in difference and '"7001"' in difference and f"revision {first}" in difference,
            difference)
    t.equal(rsock(t, a, "diff", second), "", "a difference to itself")
    third = int(rsock(t, a, "rollback", first).split()[1])
    runs(t, b, third)
    has(t, b, SHARED)
    t.check(third > second, "a rollback is a revision of its own")
    t.equal(rsock(t, a, "diff", first), "", "what was rolled back to")
    rsock(t, a, "rollback", third, expect=1)
    rsock(t, a, "rollback", 999999, expect=1)
    t.equal(state(b)["newest"], third, "failed rollbacks change nothing")
    shown = json.loads(rsock(t, b, "show", "--json"))["cluster"]
    t.equal((shown["revision"], shown["newest"], shown["refused"], shown["reached"]),
            (third, third, None, True), shown)
    t.check(f"revision {third} is in force" in rsock(t, b, "show"), "show")
    for words in (["history"], ["push", t.path("document.yaml")], ["diff"]):
        t.check("root" in rsock(t, a, *words, user=65534, expect=1), f"{words} by another user")


@case(timeout=60)
def each_has_an_order_of_its_own(t):
    """Hosts with the same list do not all ask the same node of etcd, unless they are told to."""
    lab = Lab(t, 2)
    a, etcd = lab.hosts[0], Etcd(lab.hosts[1])
    ways = [Proxy(etcd.host, port, (etcd.host.ip, PORT)).url for port in (4000, 4001, 4002)]

    def first(**order):
        a.start(**member(a, *ways, **order))
        t.until(lambda: state(a)["reached"], 15, "etcd to be reached")
        endpoint = state(a)["endpoint"]
        t.stop(a.daemon)
        return endpoint
    t.equal({first() for _ in range(4)}, {ways[0]}, "the order of the list")
    found = set()
    while found != set(ways):  # 20 turns do not suffice once in a thousand runs
        found.add(first(order="random"))


@case(timeout=60)
def what_is_wrong_is_refused_by_all(t):
    etcd, a, b = cluster(t)
    good = push(a, document())
    runs(t, a, good)
    runs(t, b, good)
    for text, words in (("services: 5\n", "line"), ("rnics: []\n", "rnics"), ("", "empty"),
                        ("services: [{name: s, ports: ['0']}]\n", "services[0] (s): ports")):
        error = a.post("/v1/policy/push", {"text": text}, status=400)["error"]
        t.check(words in error, f"{text}: {error}")
    t.equal(state(a)["newest"], good, "nothing was written")
    # By another way than rsock: every host refuses it, and says so once.
    for bad in (document(0), b"\xff\x00\x1b[31m garbage \n", "a: [\n", document()[:-4]):
        revision = etcd.put(bad)
        for host in (a, b):
            t.until(lambda host=host, revision=revision: state(host)["newest"] == revision, 10,
                    "the revision to be seen")
            now = state(host)
            t.equal((now["revision"], now["reached"]), (good, True), "the last one stays")
            t.check(now["refused"] and "\x1b" not in now["refused"], now)
            has(t, host, SHARED)
            t.equal(host.figure("cluster_refused"), 1, "the metric")
            t.equal(host.daemon.err().count(f"revision {revision} of the cluster's"), 1,
                    host.daemon.err())
    t.check("refused: " in rsock(t, a, "show"), "show")
    # One that fits one host only; the other one takes it when its own file fits.
    fast = json.dumps({"services": [{"name": "shared", "ports": ["7002"]}],
                       "rules": [{"name": "r", "map": {"group": "fast"}}]})
    nics = [{"name": "rnic0", "addresses": [a.ip], "group": "fast"}]
    a.write_config(**member(a, etcd.url, rnics=nics))
    a.post("/v1/reload", {})
    revision = push(a, fast)
    runs(t, a, revision)
    t.until(lambda: state(b)["newest"] == revision, 10, "the other host to see it")
    t.check("fast" in state(b)["refused"], state(b))
    has(t, b, SHARED)
    b.write_config(**member(b, etcd.url, rnics=[{**nics[0], "addresses": [b.ip]}]))
    b.post("/v1/reload", {})
    runs(t, b, revision)
    t.equal(state(b)["refused"], None, "it fits now")
    # A file that does not fit the document that is in force is refused, too.
    b.write_config(**member(b, etcd.url))
    t.check("cluster's document" in b.post("/v1/reload", {}, status=409)["error"], "reload")
    etcd.do("kv/deleterange", key=b64(CURRENT))
    t.until(lambda: "deleted" in (state(a)["refused"] or ""), 10, "the deletion to be seen")
    has(t, a, 7002)
    t.equal(state(a)["revision"], revision, "a deleted document stays in force")


@case(timeout=60)
def one_of_two_pushes_wins(t):
    """Over a slow way, so that both have read the same revision before one of them writes."""
    lab = Lab(t, 3)
    etcd = Etcd(lab.hosts[-1])
    a, b = lab.hosts[:2]
    for host in (a, b):
        slow = Proxy(lab.hosts[-1], 4000 + host.number, (etcd.host.ip, PORT), delay_s=0.1)
        host.start(**member(host, slow.url))
    first = push(a, document())
    runs(t, b, first)
    got = {}

    def one(host, port):
        got[host.number] = host.ask("POST", "/v1/policy/push", {"text": document(port)})
    threads = [threading.Thread(target=one, args=(host, 7000 + host.number)) for host in (a, b)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t.equal(sorted(status for status, _ in got.values()), [200, 409], got)
    winner = next(number for number, (status, _) in got.items() if status == 200)
    t.check("meanwhile" in got[3 - winner][1]["error"], got)
    for host in (a, b):
        runs(t, host, got[winner][1]["revision"])
        has(t, host, 7000 + winner)


@case(timeout=90)
def the_history_has_a_bound(t):
    """A push leaves the newest entries only, and of two pushes at once neither takes more."""
    lab = Lab(t, 3)
    etcd = Etcd(lab.hosts[-1])
    a, b = lab.hosts[:2]
    for host in (a, b):
        host.start(**member(host, etcd.url, history=3))

    def kept():
        revisions = a.get("/v1/policy/history")["revisions"]
        return [one["revision"] for one in revisions if not one["current"]]
    pushed = []
    for number in range(6):
        pushed.append(push(a, document(SHARED + number)))
        t.equal(kept(), pushed[-2::-1][:3], f"after {number + 1} pushes")
    # What is not of rsockd does not count, and does not push out what is.
    etcd.put("x", f"{PREFIX}/config/history/zzz")
    back = a.post("/v1/policy/rollback", {"revision": pushed[2]})["revision"]
    pushed.append(back)
    t.equal(kept(), pushed[-2::-1][:3], "after the way back to the oldest")
    runs(t, b, back)
    has(t, b, SHARED + 2)
    etcd.do("kv/deleterange", key=b64(f"{PREFIX}/config/history/zzz"))
    for round_ in range(5):
        results = {}

        def race(host, port, results=results):
            answer_ = host.ask("POST", "/v1/policy/push", {"text": document(port)})
            results[host.number] = answer_
        threads = [threading.Thread(target=race, args=(host, SHARED + 10 * round_ + host.number))
                   for host in (a, b)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        done = sorted(body["revision"] for status, body in results.values() if status == 200)
        t.check(done and all(status in (200, 409) for status, _ in results.values()), results)
        pushed += done
        t.equal(kept(), pushed[-2::-1][:3], "after a race")
    # A bound that is lower than what there is.
    t.stop(a.daemon)
    a.start(**member(a, etcd.url, history=1))
    pushed.append(push(a, document()))
    t.equal(kept(), pushed[-2:-1], "one is left")
    etcd.do("kv/deleterange", key=b64(CURRENT))
    push(a, document(SHARED + 1))
    t.equal(kept(), pushed[-2:-1], "nothing was replaced, so nothing was added")


@case(timeout=60)
def etcd_goes_and_comes_back(t):
    etcd, a, b = cluster(t)
    first = push(a, document())
    for host in (a, b):
        runs(t, host, first)
    etcd.kill()
    t.until(lambda: not state(a)["reached"] and not state(b)["reached"], 10, "it to be missed")
    has(t, a, SHARED)
    t.check("not reached" in rsock(t, a, "show"), "show")
    t.check(a.ask("POST", "/v1/policy/push", {"text": document()})[0] in (503, 504), "a push")
    t.equal(a.figure("cluster_reached"), 0, "the metric")
    b.post("/v1/reload", {})
    has(t, b, SHARED)
    b.daemon.popen.terminate()
    t.wait(b.daemon)
    b.restart()  # without etcd: see net_expire.py
    has(t, b, SHARED)
    etcd.start()
    second = etcd.put(document(7001))
    for host in (a, b):
        runs(t, host, second)
        has(t, host, 7001)
        t.equal(state(host)["reached"], True, "reached")
    t.equal(a.daemon.err().count("etcd is not reached"), 1, a.daemon.err())
    t.equal(a.daemon.err().count("etcd is reached again"), 1, a.daemon.err())


@case(timeout=60)
def a_compaction_under_the_watch(t):
    """The watch is to begin at a revision that etcd has forgotten meanwhile: the document is read
    again.
    """
    lab = Lab(t, 2)
    a, etcd = lab.hosts[0], Etcd(lab.hosts[1])
    way = Proxy(lab.hosts[1], 4000, (etcd.host.ip, PORT))
    etcd.put(document())
    way.hold = b"/v3/watch"
    a.start(**member(a, way.url))
    t.until(lambda: way.held, 10, "the watch")
    for port in range(7001, 7006):
        newest = etcd.put(document(port))
    etcd.do("kv/compaction", revision=str(newest))
    way.hold = None
    runs(t, a, newest)
    has(t, a, 7005)
    t.equal(state(a)["compactions"], 1, "watches that were ended")
    runs(t, a, push(a, document()))
    t.equal(state(a)["reached"], True, "the next watch")


@case(timeout=150)
def certificates(t):
    lab = Lab(t, 3)
    ours, others = Certificates(t, "ours"), Certificates(t, "others")
    etcd = Etcd(lab.hosts[2], tls=ours, by_client=True)
    etcd.put(document())
    certificate, key = ours.sign("agent")
    tls = {"ca": ours.ca, "certificate": certificate, "key": key}
    a, b = lab.hosts[:2]
    a.start(**member(a, etcd.url, tls=tls))
    t.until(lambda: state(a)["revision"], 10, "the document by TLS")
    stream = Stream(a, b)
    stream.goes_on()
    wrong = others.sign("agent")
    # How a daemon notices that its own certificate is not accepted depends on what arrives first:
    # the alert, or the end of the connection.
    for bad, words in (({**tls, "ca": others.ca}, "certificate"),
                       ({"certificate": certificate, "key": key}, "certificate"),
                       ({"ca": ours.ca}, etcd.url),
                       ({**tls, "certificate": wrong[0], "key": wrong[1]}, etcd.url)):
        b.start(**member(b, etcd.url, tls=bad))
        # A handshake that is too slow fails as well, by memcheck beside other tests.
        t.until(lambda: words in (state(b)["error"] or ""), 30, "a failure for that reason")
        now = state(b)
        t.check(not now["reached"] and not now["revision"], now)
        stream.goes_on()
        t.stop(b.daemon)
    b.write_config(**member(b, etcd.url, tls={**tls, "key": t.path("none")}))
    failed = b.run([f"{t.bin}/rsockd", "-c", t.path("rsockd2.conf")])
    t.wait(failed, 10, expect=1)
    t.check("none" in failed.err(), failed.err())
    stream.end(pause_s=10)


@case(timeout=60)
def user_and_password(t):
    lab = Lab(t, 2)
    a = lab.hosts[0]
    ours = Certificates(t, "ours")
    etcd = Etcd(lab.hosts[1], tls=ours)
    etcd.put(document())
    for path, body in (("user/add", {"name": "root", "password": "secret"}),
                       ("user/grant", {"user": "root", "role": "root"}), ("enable", {})):
        etcd.do(f"auth/{path}", **body)
    with open(t.path("password"), "w") as file:
        file.write("wrong\n")
    login = {"tls": {"ca": ours.ca}, "user": "root", "password-file": t.path("password")}
    a.start(**member(a, etcd.url, **login))
    t.until(lambda: state(a)["error"], 10, "a failure")
    t.check("authentication" in state(a)["error"], state(a))
    t.stop(a.daemon)
    with open(t.path("password"), "w") as file:
        file.write("secret\n")
    a.start(**member(a, etcd.url, **login))
    t.until(lambda: state(a)["revision"], 10, "the document")
    t.until(lambda: state(a)["member"]["registered"], 10, "the entry among the members")
    runs(t, a, push(a, document(7001)))
    # Changing the password, even to the same one, makes the token invalid.
    etcd.token = etcd.do("auth/authenticate", name="root", password="secret")["token"]
    etcd.do("auth/user/changepw", name="root", password="secret")
    runs(t, a, push(a, document(7002)))
    t.equal(a.figure("cluster_etcd_tokens_total"), 2, "tokens")
    etcd.kill()
    etcd.start()
    runs(t, a, push(a, document(7003)))
    t.check("secret" not in a.daemon.err(), "the password is not logged")


@case(timeout=60)
def several_endpoints(t):
    """One that does not exist, one that says nothing, and etcd."""
    lab = Lab(t, 2)
    a, etcd = lab.hosts[0], Etcd(lab.hosts[1])
    mute = Proxy(lab.hosts[1], 4001, (etcd.host.ip, PORT))
    mute.silent = True
    revision = etcd.put(document())
    a.start(**member(a, f"http://{etcd.host.ip}:4002", mute.url, etcd.url, timeout="1s"))
    runs(t, a, revision)
    t.equal(state(a)["endpoint"], etcd.url, "the endpoint that is asked now")
    runs(t, a, push(a, document(7001)))
    # While an order waits for one that says nothing, others are served.
    t.stop(a.daemon)
    a.start(**member(a, mute.url, timeout="3s"))
    began, got = time.monotonic(), []
    thread = threading.Thread(target=lambda: got.append(
        a.ask("POST", "/v1/policy/push", {"text": document()})))
    thread.start()
    for _ in range(5):
        has(t, a, 7001)
    t.check(thread.is_alive(), "the daemon waited for etcd")
    thread.join()
    t.equal(got[0][0], 503, got)
    t.check(time.monotonic() - began > 2.8, "the deadline")
    t.until(lambda: state(a)["error"], 10, "the failure to be told")


@case(timeout=60)
def endpoints_with_names(t):
    """Names are resolved at the start, by no thread; one without an address is not used."""
    lab = Lab(t, 2)
    a, etcd = lab.hosts[0], Etcd(lab.hosts[1])
    near = Proxy(a, 4003, (etcd.host.ip, PORT), at="127.0.0.1")
    revision = etcd.put(document())
    name = near.url.replace("127.0.0.1", "localhost")
    a.start(**member(a, "http://no.such.invalid:2379", name))
    runs(t, a, revision)
    t.equal(state(a)["endpoint"], name, "the endpoint")
    t.check("no.such.invalid" in a.daemon.err(), "the other one is reported")
    t.equal(len(os.listdir(f"/proc/{a.daemon.pid}/task")), 2, "threads")
    runs(t, a, push(a, document(7001)))
    t.stop(a.daemon)
    path = a.write_config(**member(a, "http://no.such.invalid:2379"))
    failed = a.run([f"{t.bin}/rsockd", "-c", path])
    t.wait(failed, 20, expect=1)
    t.check("no endpoint has an address" in failed.err(), failed.err())


GARBAGE = [
    b"", b"\0" * 4000, b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 999 x\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{",
    answer("<html>"), answer("{"), answer("[]"), answer("{}"), answer("null"), answer("5"),
    answer("{" * 100000), answer("[" * 100000), answer('{"header":5}'),
    answer('{"header":{"revision":"-1"}}'),
    answer('{"header":{"revision":"99999999999999999999"}}'),
    answer('{"header":{"revision":"1"},"kvs":5}'), answer('{"header":{"revision":"1"},"kvs":[5]}'),
    answer('{"header":{"revision":"1"},"kvs":[{"key":"%"}]}'),
    answer('{"header":{"revision":"1"},"kvs":[{"key":"YQ==","value":"YQ","mod_revision":"5"}]}'),
    answer('{"header":{"revision":"1"},"header":{}}'),
    answer('{"error":"no","code":5}', "404 Not Found"), answer("gone", "503 x"),
    answer('{"error":5,"code":"x"}', "500 x"), answer("x" * 2000000),
    answer('{"token":"a\\r\\nb"}', "401 x"),
    # A document that is valid, and then no watch.
    answer(json.dumps({"header": {"revision": "7"}, "kvs": [
        {"key": b64(CURRENT), "value": b64(document(7009)), "mod_revision": "7"}]})),
]


@case(timeout=60)
def answers_of_something_else(t):
    """Whatever is at the address: the daemon goes on, and reaches etcd afterwards."""
    lab = Lab(t, 2)
    a = lab.hosts[0]
    liar = Liar(lab.hosts[1], 4000)
    etcd = Etcd(lab.hosts[1])
    revision = etcd.put(document())
    for number, words in enumerate(GARBAGE):
        liar.answer = words
        asked = liar.asked
        status, said = a.ask("POST", "/v1/policy/push", {"text": document()}) \
            if number else (a.start(**member(a, liar.url, timeout="1s")) and 503, "")
        t.check(status in (403, 503, 504, 409), f"{words[:80]}: {status} {said}")
        if number:
            t.check(liar.asked > asked, "it was asked")
    t.check(a.daemon.popen.poll() is None, "the daemon runs")
    liar.socket.close()
    a.write_config(**member(a, etcd.url))
    t.stop(a.daemon)
    a.restart()
    runs(t, a, revision)


@case(timeout=60)
def a_document_that_is_too_large(t):
    etcd, a = cluster(t, agents=1)
    good = push(a, document())
    large = "# " + "x" * 300000 + "\n" + document()
    t.equal(a.ask("POST", "/v1/policy/push", {"text": large})[0], 400, "a push")
    for _ in range(2):  # under the watch, and at the start
        revision = etcd.put(large)
        t.until(lambda revision=revision: state(a)["newest"] == revision, 10, "it to be seen")
        t.check("larger" in state(a)["refused"] and state(a)["reached"], state(a))
    t.equal(state(a)["revision"], good, "the last one stays")
    t.stop(a.daemon)
    a.restart()
    t.until(lambda: "larger" in (state(a)["refused"] or ""), 10, "it to be refused at the start")
    t.equal(state(a)["revision"], good, "the last one was kept")
    has(t, a, SHARED)
    revision = push(a, document(7001))
    runs(t, a, revision)
    t.equal(state(a)["refused"], None, "it was replaced")
    t.check(len(document()) < 262000, "one of the size that is allowed")
    whole = document(7002) + "# " + "x" * 200000 + "\n"
    for _ in range(2):
        revision = push(a, whole)
        runs(t, a, revision)
    t.equal(a.get("/v1/policy/history")["revisions"][0]["bytes"], len(whole), "history")


@case(timeout=60)
def without_a_cluster_nothing_is_loaded(t):
    """libcurl is mapped where there is a cluster only, and the daemon stays one of two threads."""
    lab = Lab(t, 2)
    a, etcd = lab.hosts[0], Etcd(lab.hosts[1])
    a.start(**serving(a))
    for path, body in (("push", {"text": ""}), ("read", {}), ("rollback", {"revision": 1})):
        a.post(f"/v1/policy/{path}", body, status=404)
    t.equal(a.get("/v1/status").get("cluster"), None, "status")
    t.check("rsockd_cluster" not in a.get("/metrics"), "metrics")
    with open(f"/proc/{a.daemon.pid}/maps") as file:
        t.check("libcurl" not in file.read(), "libcurl")
    t.stop(a.daemon)
    a.start(**member(a, etcd.url))
    with open(f"/proc/{a.daemon.pid}/maps") as file:
        t.check("libcurl" in file.read(), "libcurl")
    t.equal(len(os.listdir(f"/proc/{a.daemon.pid}/task")), 2, "no thread is added")


if __name__ == "__main__":
    sys.exit(main())
