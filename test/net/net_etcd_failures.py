#!/usr/bin/python3
"""What rsockd does when an etcd of three nodes fails: each node on a host of its own, three agents
on others, and a stream between programs of two of these that goes on all the time. The agents have
the ledger: they hold quotas of each other's RNICs, and use sessions there, also while etcd fails.

Each case ends with the same questions (Rig.is_whole): does every agent run the newest revision,
does etcd have an entry of each agent and of nobody else, is the entry of one that is killed gone
after two leases, and did no agent ever go back to an older revision? Was anything of an RNIC
granted twice, at any revision of etcd, and is all that the killed one held free after two leases?
"""
import base64
import json
import re
import signal
import sys
import time

from cluster_audit import LEDGER, Stream, Users, ready
from etcdlab import CURRENT, PORT, PREFIX, EtcdCluster, Proxy, b64
from ledger_in_use import HELD, SESSIONS, LedgerInUse
from lib.harness import Failure, case, main
from net_cluster import has, push, runs, state
from net_members import count, registered
from net_rsockd import serving
from netlab import Lab

LEASE_S = 4
CHECK_S = 10  # how often an agent looks at the key beside its watch
WATCHES = "etcd_debugging_mvcc_watcher_total"
READINGS = ('grpc_server_handled_total{grpc_code="OK",grpc_method="Range",'
            'grpc_service="etcdserverpb.KV",grpc_type="unary"}')
def document(port=7000):
    return json.dumps({"services": [
        {"name": "shared", "ports": [str(port)]}, Users.SERVICE,
        {"name": "held", "ports": [str(HELD)]}]}) + "\n"


def taken(daemon):
    """The revisions that a run of an agent has put in force, in their order."""
    return [int(number) for number in
            re.findall(r"revision (\d+) of the cluster's document is in force", daemon.err())]


class Rig(LedgerInUse):
    def __init__(self, t, **etcd):
        self.lab = Lab(t, 6)
        a, b, *nodes, c = self.lab.hosts
        super().__init__(t, EtcdCluster(nodes, **etcd), a, b, c)
        self.lease_s, self.timeout, self.stream = LEASE_S, "5s", None

    def roles(self):
        """The node that leads, and the two others."""
        self.t.until(self.etcd.leader, 20, "a leader")
        leader = self.etcd.leader()
        return leader, *(node for node in self.etcd.nodes if node is not leader)

    def start(self, urls_of_a, urls_of_others):
        """Starts the agents, each with its endpoints in this order, and all that goes on beside
        them. Returns the first revision.
        """
        for host in self.agents:
            self.configure(host, urls_of_a if host is self.a else urls_of_others)
            host.restart()
        for host in self.agents:
            registered(self.t, host)
        first = push(self.b, document())
        self.in_force(first)
        self.stream = Stream(self.a, self.b)
        self.stream.goes_on()
        self.share()
        return first

    def looks_at(self, node):
        """Waits until an agent has read the key beside its watch, and looked at the services, one
        after the other; only one agent asks that node.
        """
        before = node.figure(READINGS)
        self.t.until(lambda: node.figure(READINGS) > before + 1, CHECK_S + 5, "the agent to look")

    def configure(self, host, urls):
        """The lease of quotas is twice "hold", which is at least twice the member's."""
        config = serving(host, cluster={"etcd": urls, "prefix": PREFIX, "order": "listed",
                                        "lease": f"{self.lease_s}s", "timeout": self.timeout,
                                        "ledger": {"hold": f"{2 * self.lease_s}s"}})
        config["rnics"][0]["sessions"] = SESSIONS.get(f"host{host.number}/rnic0", 100)
        host.write_config(**config)

    def in_force(self, revision, seconds=15):
        for host in self.agents:
            runs(self.t, host, revision, seconds)

    def pushed(self, host, text, seconds=30):
        """Pushes until it succeeds; what was said before has to say so clearly. The revision."""
        deadline = time.monotonic() + seconds
        while True:
            status, said = host.ask("POST", "/v1/policy/push", {"text": text})
            if status == 200:
                return said["revision"]
            self.t.check(status in (503, 504) and "http://" in said["error"], f"{status} {said}")
            self.t.check(time.monotonic() < deadline, f"no push succeeds: {said}")

    def entries(self, node=None):
        """The entries of members, by name. What else is in etcd has to be the document's or the
        ledger's, and each entry of services has to go with the lease of its host's entry.
        """
        found, services, all_keys = {}, {}, {}
        kinds = {f"{PREFIX}/members/": found, f"{PREFIX}/services/": services}

        def read():
            try:
                all_keys.update(self.etcd.keys(node))
            except Failure:  # an election
                return False
            return True
        self.t.until(read, 20, "etcd to show its keys")
        for key, one in all_keys.items():
            head = next((head for head in kinds if key.startswith(head)), None)
            if head:
                kinds[head][key[len(head):]] = one
            elif key.startswith(LEDGER):
                self.t.check(int(one.get("lease", 0)), f"{key} would stay for ever")
            else:
                self.t.check(key == CURRENT or key.startswith(f"{PREFIX}/config/history/"), key)
        for name, one in services.items():
            self.t.equal(one["lease"], found.get(name, {}).get("lease"), f"services of {name}")
        return found

    def lives(self, node=None):
        """What identifies the life of each entry: it is another one after a lease that ended."""
        return {name: (one["create_revision"], one["lease"])
                for name, one in self.entries(node).items()}

    def gone(self, host, since, node=None):
        """Waits until the entry of a host is gone, and is strict about when."""
        name = f"host{host.number}"
        self.t.until(lambda: name not in self.entries(node), 60, f"the entry of {name} to go")
        took = time.monotonic() - since
        self.t.check(took < 2 * self.lease_s, f"it took {took:.1f} s")

    def is_whole(self, pause_s=10):
        self.stream.goes_on()
        self.shared()
        self.use()
        self.covered()
        newest = self.pushed(self.b, document(7900))
        self.in_force(newest)
        for host in self.agents:
            has(self.t, host, 7900)
            registered(self.t, host)
        # A node that has led, and goes on after a stop, takes leases for old, and etcd ends them.
        self.t.until(lambda: sorted(self.entries()) == ["host1", "host2", "host6"],
                     2 * self.lease_s, "an entry of each")
        self.covered()
        began = time.monotonic()
        self.t.kill(self.b.daemon)
        self.gone(self.b, began)
        self.t.equal(sorted(self.entries()), ["host1", "host6"], "entries after a death")
        self.nothing_is_leaked(began)
        self.auditor.end()
        self.stream.end(pause_s)
        for proc in self.t.procs:
            if "rsockd" in proc.name:
                self.t.equal(taken(proc), sorted(set(taken(proc))), f"revisions of {proc.name}")


def urls(*nodes):
    return [node.url for node in nodes]


@case(timeout=150)
def the_leader_is_killed(t):
    rig = Rig(t)
    leader, one, other = rig.roles()
    rig.start(urls(leader, one, other), urls(one, leader, other))
    before = rig.lives()
    rig.looks_at(leader)
    t.kill(leader.proc)
    rig.in_force(rig.pushed(rig.b, document(7001)))
    rig.in_force(rig.pushed(rig.a, document(7002)))
    t.check("not reached" not in rig.a.daemon.err(), "etcd is reached all the time")
    t.equal(rig.a.figure("cluster_document_outages_total"), 0, "outages")
    rig.use()
    t.until(lambda: rig.etcd.leader() in (one, other), 20, "another one to lead")
    for host in rig.agents:
        registered(t, host)
    rig.etcd.start()
    t.equal(rig.lives(), before, "no entry was gone meanwhile")
    rig.is_whole()


@case(timeout=150)
def an_endpoint_in_the_minority(t):
    rig = Rig(t)
    leader, *others = rig.roles()
    first = rig.start(urls(leader, *others), urls(*others, leader))
    before = rig.lives()
    t.equal(state(rig.a)["endpoint"], leader.url, "the endpoint")
    rig.lab.make_wire(cut=[(leader.host, other.host) for other in others])
    second = rig.pushed(rig.b, document(7001))
    runs(t, rig.b, second)
    rig.use()
    old = leader.do("kv/range", key=b64(CURRENT), serializable=True)["kvs"][0]
    t.equal(int(old["mod_revision"]), first, "what the node that is cut off has")
    # The watch there is silent; the next look is answered by a node that knows more.
    runs(t, rig.a, second, CHECK_S + 8)
    t.check(state(rig.a)["endpoint"] != leader.url, "another endpoint")
    runs(t, rig.a, rig.pushed(rig.b, document(7002)), 3)
    t.equal(rig.lives(others[0]), before, "no entry was gone meanwhile")
    rig.lab.make_wire()
    rig.is_whole()


def an_endpoint_is_silent(t, fail):
    """Of a node that leads nothing is heard any more, and no connection to it ends."""
    rig = Rig(t)
    leader, *others = rig.roles()
    rig.start(urls(leader, *others), urls(*others, leader))
    before = rig.lives()
    fail(rig, leader)
    second = rig.pushed(rig.a, document(7001))
    rig.in_force(second, CHECK_S + 8)
    rig.use()
    rig.users.go_on()
    t.check(state(rig.a)["endpoint"] != leader.url, "another endpoint")
    runs(t, rig.a, rig.pushed(rig.b, document(7002)), 3)
    t.equal(rig.lives(others[0]), before, "no entry was gone meanwhile")
    return rig, leader


@case(timeout=150)
def a_node_hangs(t):
    rig, leader = an_endpoint_is_silent(
        t, lambda _, leader: leader.proc.popen.send_signal(signal.SIGSTOP))
    leader.proc.popen.send_signal(signal.SIGCONT)
    rig.is_whole()


@case(timeout=150)
def the_host_of_a_node_vanishes(t):
    rig, _ = an_endpoint_is_silent(t, lambda rig, leader: rig.lab.make_wire(
        cut=[(leader.host, host) for host in rig.lab.hosts if host is not leader.host]))
    rig.lab.make_wire()
    rig.is_whole()


@case(timeout=150)
def a_watch_stays_at_no_node_that_is_cut_off(t):
    """Also if there is no new revision by which the next look could notice it."""
    rig = Rig(t)
    leader, *others = rig.roles()
    rig.start(urls(leader, *others), urls(*others, leader))
    t.until(lambda: leader.figure(WATCHES) == 5, 10, "the watches of the agent that "
            "asks this node: the document, services, roles, offers, its own quotas")
    rig.lab.make_wire(cut=[(leader.host, other.host) for other in others])
    t.until(lambda: leader.figure(WATCHES) == 0, CHECK_S + 8, "the watches to be at another node")
    t.check(state(rig.a)["reached"] and state(rig.a)["endpoint"] != leader.url, state(rig.a))
    rig.use()
    runs(t, rig.a, rig.pushed(rig.b, document(7001)), 3)
    rig.lab.make_wire()
    rig.is_whole()


@case(timeout=300)
def a_host_in_the_minority(t):
    """With one node of etcd, and without the other hosts."""
    rig = Rig(t)
    rig.timeout = "2s"
    near, *others = rig.roles()
    first = rig.start(urls(near, *others), urls(*others, near))
    began = time.monotonic()
    rig.lab.make_wire(cut=[(one, other) for one in (rig.a, near.host)
                           for other in (rig.b, rig.c, others[0].host, others[1].host)])
    rig.gone(rig.a, began, others[0])
    t.until(lambda: not state(rig.a)["reached"], 30, "it to be noticed")
    second = push(rig.b, document(7001))
    runs(t, rig.b, second)
    status, said = rig.a.ask("POST", "/v1/policy/push", {"text": document(7002)})
    t.check(status == 503 and "http://" in said["error"], f"{status} {said}")
    t.equal(state(rig.a)["revision"], first, "the last document stays in force")
    has(t, rig.a, 7000)
    t.check(not state(rig.a)["member"]["registered"], "it knows that it is no member")
    rig.loses_its_quotas(rig.a, others[0])
    ready(t, rig.a, "local")
    rig.lab.make_wire()
    rig.in_force(second, 30)
    registered(t, rig.a, seconds=30)
    t.equal(rig.a.daemon.err().count("etcd is not reached"), 1, rig.a.daemon.err())
    # Its stream is cut off, too; TCP tries again after as long as that has been, or twice as long.
    rig.stream.goes_on(150)
    rig.is_whole(pause_s=200)


@case(timeout=150)
def all_are_killed_and_come_back(t):
    rig = Rig(t)
    first = rig.start(*[urls(*rig.etcd.nodes)] * 2)
    before = rig.lives()
    for node in rig.etcd.nodes:
        t.kill(node.proc)
    for host in rig.agents:
        t.until(lambda host=host: not state(host)["reached"], 30, "it to be missed")
        has(t, host, 7000)
        status, said = host.ask("POST", "/v1/policy/push", {"text": document(7001)})
        t.check(status == 503 and "http://" in said["error"], f"{status} {said}")
    rig.stream.goes_on()
    rig.use()
    for host in rig.agents:
        ready(t, host, "local", 60)
    rig.use()
    rig.users.go_on()
    rig.etcd.start()
    for host in rig.agents:
        t.until(lambda host=host: state(host)["reached"], 30, "it to be reached")
        registered(t, host, seconds=30)
    t.equal(sorted(rig.lives()), sorted(before), "entries")
    rig.in_force(first)
    rig.in_force(rig.pushed(rig.a, document(7002)))
    rig.is_whole()


QUOTA = 4 << 20


def fill(rig):
    """Writes until etcd has no space left; returns the keys."""
    for number in range(1000):
        status, said = rig.etcd.any().ask("kv/put", key=b64(f"{PREFIX}/config/history/x{number}"),
                                          value=b64("x" * 100000))
        if status != 200:
            rig.t.check("space exceeded" in said["error"], said)
            return
    raise Failure("etcd has space without end")


def make_room(rig):
    head = f"{PREFIX}/config/history/x"
    node = rig.etcd.any()
    node.do("kv/deleterange", key=b64(head), range_end=b64(head[:-1] + "y"))
    revision = node.do("kv/range", key=b64("x"))["header"]["revision"]
    node.do("kv/compaction", revision=revision, physical=True)
    for one in rig.etcd.nodes:
        one.do("maintenance/defragment")
    for alarm in node.do("maintenance/alarm", action="GET").get("alarms", []):
        node.do("maintenance/alarm", action="DEACTIVATE", alarm=alarm["alarm"],
                memberID=alarm["memberID"])


@case(timeout=300)
def a_full_disk(t):
    """etcd takes no writes any more, until there is room and the alarm is off."""
    rig = Rig(t, words=["--quota-backend-bytes", QUOTA])
    first = rig.start(*[urls(*rig.etcd.nodes)] * 2)
    before = rig.lives()
    fill(rig)
    for host in rig.agents:
        status, said = host.ask("POST", "/v1/policy/push", {"text": document(7001)})
        t.equal(status, 503, said)
        t.check("database space exceeded" in said["error"], said)
    # Agents that have to write their entries cannot, and keep their leases.
    more = {"name": "rnic1", "addresses": ["10.78.0.1"]}
    for host in rig.agents:
        host.write_config(**{**host.config, "rnics": [*host.config["rnics"], more]})
        host.post("/v1/reload", {})
        t.until(lambda host=host: "space exceeded" in (state(host)["member"]["error"] or ""), 20,
                "the reason to be told")
    began, renewals = time.monotonic(), count(rig.a, "renewals")
    while time.monotonic() < began + 5 * LEASE_S:
        t.equal(rig.lives(), before, "entries while the disk is full")
        for host in rig.agents:
            t.check(state(host)["reached"] and state(host)["revision"] == first, state(host))
            t.check(state(host)["member"]["error"], "it is not forgotten what is wrong")
        rig.use()
    t.check(count(rig.a, "renewals") > renewals + 5, "its lease is kept alive")
    rig.users.go_on()
    for host in rig.agents:
        t.equal(host.daemon.err().count("entry is not up to date"), 1, host.daemon.err())
        t.check("is not entered" not in host.daemon.err(), host.daemon.err())
    # One that ends takes its entry with it, and gets no other one when it is started.
    t.stop(rig.a.daemon)
    t.until(lambda: "host1" not in rig.entries(), LEASE_S / 2, "its entry to go at once")
    rig.a.restart()
    rig.hold(rig.a)
    runs(t, rig.a, first)
    t.until(lambda: "space exceeded" in (state(rig.a)["member"]["error"] or ""), 20, "the reason")
    make_room(rig)
    rig.in_force(rig.pushed(rig.a, document(7002)))
    registered(t, rig.a)
    t.until(lambda: all(b"rnic1" in base64.b64decode(one["value"])
                        for one in rig.entries().values()), 20, "the entries to be written")
    t.check(not any(state(host)["member"]["error"] for host in rig.agents), "the error is over")
    t.equal(rig.lives()["host2"], before["host2"], "its entry was never gone")
    rig.is_whole()


@case(timeout=150)
def a_node_whose_disk_is_full(t):
    """That node ends; the others go on, and so do the agents that have asked it."""
    rig = Rig(t, disk_mb=150)  # etcd reserves 64 MB of it twice at its start
    *others, full = rig.etcd.nodes
    rig.start(urls(full, *others), urls(*others, full))
    before = rig.lives()
    for number in range(200):
        if full.proc.popen.poll() is not None:
            break
        others[0].ask("kv/put", key=b64(f"{PREFIX}/config/history/x{number % 4}"),
                      value=b64("x" * 1000000))  # fails where the node that ends leads
    t.check("no space left on device" in full.proc.err(), full.proc.err())
    rig.in_force(rig.pushed(rig.a, document(7001)))
    rig.in_force(rig.pushed(rig.b, document(7002)))
    rig.use()
    for host in rig.agents:
        registered(t, host)
    t.equal(rig.lives(others[0]), before, "no entry was gone meanwhile")
    rig.is_whole()


@case(timeout=300)
def slow_links(t):
    """50 ms to and from each node of etcd, whose time for an election is ten times what a message
    between two of them needs to and fro, as etcd demands.
    """
    rig = Rig(t, words=["--heartbeat-interval", "200", "--election-timeout", "2000"])
    # An answer to which the nodes have to agree may take a second, and so may each renewal.
    rig.timeout, rig.lease_s = "10s", 2 * LEASE_S
    rig.start(*[urls(*rig.etcd.nodes)] * 2)
    before = rig.lives()
    rig.lab.make_wire(slow_ms={node.host: 50 for node in rig.etcd.nodes})
    for port in range(7001, 7004):
        began = time.monotonic()
        rig.in_force(rig.pushed(rig.a, document(port)))
        t.check(time.monotonic() - began > 0.4, "it was slow")
        rig.use()
    rig.users.go_on()
    t.until(lambda renewals=count(rig.b, "renewals"): count(rig.b, "renewals") > renewals + 3, 60,
            "the lease to be kept alive")
    t.equal(rig.lives(), before, "no entry was gone meanwhile")
    rig.lab.make_wire()
    rig.is_whole()


@case(timeout=300)
def an_endpoint_that_takes_3_seconds(t):
    """It is left for another one where its part of the time is over, and is enough where it is the
    only one.
    """
    rig = Rig(t)
    one, *others = rig.etcd.nodes
    slow = Proxy(one.host, 4000, (one.host.ip, PORT))
    rig.lease_s = 20
    rig.start([slow.url], [slow.url, *urls(*others)])
    slow.delay_s = 1.5
    began = time.monotonic()
    status, said = rig.a.ask("POST", "/v1/policy/push", {"text": document(7001)})
    took = time.monotonic() - began
    t.equal(status, 200, said)
    t.check(6 < took < 10, f"two calls took {took:.1f} s")
    rig.in_force(said["revision"])
    before = rig.lives()
    rig.in_force(rig.pushed(rig.b, document(7002)))
    t.check(state(rig.b)["endpoint"] != slow.url, "another endpoint")
    rig.use()
    # With less time than an answer needs: what was not executed for sure, and what is not known.
    t.stop(rig.a.daemon)
    t.until(lambda: "host1" not in rig.entries(), 40, "its entry to go")
    slow.delay_s = 0
    rig.timeout = "2s"
    rig.configure(rig.a, [slow.url])
    rig.a.restart()
    registered(t, rig.a)
    rig.hold(rig.a)
    slow.delay_s = 1.5
    began = time.monotonic()
    status, said = rig.a.ask("POST", "/v1/policy/push", {"text": document(7003)})
    t.check(status == 503 and slow.url in said["error"], f"{status} {said}")
    t.check(1.9 < time.monotonic() - began < 4, "the deadline")
    t.check(before["host2"] == rig.lives()["host2"], "the other one was there all the time")
    slow.delay_s = 0
    registered(t, rig.a, seconds=30)
    # The one that is to be killed: with a lease whose end can be waited for.
    t.stop(rig.b.daemon)
    rig.lease_s = LEASE_S
    rig.configure(rig.b, urls(*others))
    rig.b.restart()
    registered(t, rig.b)
    rig.hold(rig.b)
    rig.is_whole()


@case(timeout=150)
def a_compaction_while_the_daemon_is_stopped(t):
    """What it watches from is forgotten when it goes on: etcd ends the watch."""
    rig = Rig(t)
    node, *others = rig.etcd.nodes
    way = Proxy(node.host, 4000, (node.host.ip, PORT))
    rig.start([way.url], urls(*others, node))
    way.loses, way.hold = True, f'"{b64(CURRENT)}","start_revision"'.encode()  # of a watch
    rig.pushed(rig.b, document(7001))
    t.until(lambda: way.held, CHECK_S + 3, "the agent to read again, and to watch")
    rig.a.daemon.popen.send_signal(signal.SIGSTOP)
    for port in range(7001, 7021):
        newest = node.put(document(port))
    node.do("kv/compaction", revision=str(newest), physical=True)
    way.loses, way.hold = False, None
    runs(t, rig.b, newest)
    rig.use(rig.b)
    rig.a.daemon.popen.send_signal(signal.SIGCONT)
    runs(t, rig.a, newest, 5)
    t.equal(state(rig.a)["compactions"], 1, "watches that were ended")
    t.equal(rig.a.figure("cluster_document_outages_total"), 0, "outages")
    has(t, rig.a, 7020)
    rig.is_whole()


@case(timeout=300)
def a_daemon_that_is_stopped_for_longer_than_its_lease(t):
    rig = Rig(t)
    rig.start(*[urls(*rig.etcd.nodes)] * 2)
    before = rig.lives()
    began = time.monotonic()
    rig.a.daemon.popen.send_signal(signal.SIGSTOP)
    rig.gone(rig.a, began)
    newest = rig.pushed(rig.b, document(7001))
    rig.stream.goes_on()
    rig.loses_its_quotas(rig.a)
    rig.a.daemon.popen.send_signal(signal.SIGCONT)
    rig.in_force(newest)
    registered(t, rig.a)
    t.until(lambda: "host1" in rig.entries(), 10, "its entry")
    now = rig.lives()
    t.equal(now["host2"], before["host2"], "the entry of the other one")
    t.check(now["host1"][1] != before["host1"][1], "another lease")
    t.equal((count(rig.a, "lapses"), count(rig.a, "conflicts")), (1, 0), "leases, conflicts")
    rig.is_whole()


@case(timeout=150)
def lost_events(t):
    """The watch lives, and its events do not arrive: the agent looks at the key now and then."""
    rig = Rig(t)
    one, *others = rig.etcd.nodes
    way = Proxy(one.host, 4000, (one.host.ip, PORT))
    first = rig.start([way.url], urls(one, *others))
    way.loses = True
    second = rig.pushed(rig.b, document(7001))
    runs(t, rig.b, second)
    lost = t.until(lambda: next((one for one in way.lost if b64(CURRENT).encode() in one), None),
                   10, "the event to be lost")
    t.equal(state(rig.a)["revision"], first, "nobody has told it")
    rig.use()
    runs(t, rig.a, second, CHECK_S + 3)
    rig.use()
    way.loses = False
    # The watch that it has begun then works; what comes behind its time is not taken.
    way.late_behind, way.late = b64(CURRENT).encode(), lost
    third = rig.pushed(rig.b, document(7002))
    runs(t, rig.a, third, 3)
    t.until(lambda: not way.late, 10, "the former event")
    fourth = rig.pushed(rig.b, document(7003))
    runs(t, rig.a, fourth, 3)
    t.equal(taken(rig.a.daemon), [first, second, third, fourth], "revisions in force")
    t.equal(rig.a.figure("cluster_document_outages_total"), 0, "outages")
    rig.is_whole()


@case(timeout=150)
def calls_that_fail_together(t):
    """Each goes on at the next endpoint; none passes over the one that works."""
    rig = Rig(t)
    dead = f"http://{rig.etcd.nodes[0].host.ip}:4001"
    rig.start(*[[dead, rig.etcd.nodes[0].url]] * 2)
    for host in rig.agents:
        # the document, services, roles, offers, its own quotas, two leases
        t.equal(host.figure("cluster_etcd_failures_total"), 7, "failures at an endpoint")
        t.check("not reached" not in host.daemon.err(), host.daemon.err())
    rig.is_whole()


if __name__ == "__main__":
    sys.exit(main())
