#!/usr/bin/python3
"""Roles of a cluster: central policy agents and central PMSPs that hosts find in a real etcd. The
agent whose entry is the oldest is asked by all; when its lease ends the next one takes over.
"""
import json
import signal
import socket
import sys
import threading

from etcdlab import PORT as ETCD_PORT, PREFIX, Certificates, Etcd, Proxy, b64
from lib.harness import case, main
from net_cluster import rsock, state
from net_members import GARBAGE, LEASE_S, registered
from net_pma import IPERF, PORT, QUICK, held, link, meets
from net_pma_tls import say, tls
from net_rsockd import EVERYTHING, SERVICE, asking, serving
from netlab import Lab

LASTING = [{**IPERF[0], "pm-time": "60s"}]
BOOT = "0123456789abcdef"


def of(etcd, /, **more):
    return {"etcd": [etcd.url], "prefix": PREFIX, "lease": f"{LEASE_S}s", **more}


def agent(host, etcd, services, listen=None, **more):
    """Starts a central policy agent."""
    pma = {"listen": [listen or f"{host.ip}:{PORT}"], "allow": ["10.77.0.0/24"],
           "lease-time": "0s", **QUICK, **more.pop("pma", {})}
    return host.start(services=services, rules=EVERYTHING, pma=pma,
                      cluster=of(etcd, **more.pop("cluster", {})), **more)


def node(host, etcd, **more):
    """Starts a host whose policy agent asks whoever has the role."""
    pma = {"central": "cluster", **QUICK, "timeout": "300ms", **more.pop("pma", {})}
    return host.start(**serving(host, services=LASTING, cluster=of(etcd), pma=pma, **more))


def roles(host):
    """Node of each role, and whether it is asked."""
    return {(one["role"], one["node"]): one["asked"]
            for one in host.get("/v1/policy/roles")["roles"]}


def told(t, host, *which, seconds=15):
    t.until(lambda: set(roles(host)) == set(which), seconds, f"host {host.number} to see {which}")


def serves(host):
    return host.get("/v1/status")["pma"]["serves"]


def at_work(t, central, *nodes, seconds=20):
    """Waits until this agent has the role, its grace period is over, and these nodes ask it."""
    t.until(lambda: state(central)["roles"]["agent-here"], seconds,
            f"host {central.number} to have the role")
    for host in nodes:
        t.until(lambda host=host: host.get("/v1/status")["pma"]["central"]["ip"] == central.ip,
                seconds, f"host {host.number} to turn to it")
        meets(t, host)
    t.until(lambda: not serves(central)["grace"], seconds, "the grace period to end")


def known(central):
    return {one["node"] for one in serves(central)["nodes"]}


def two_agents(t, nodes=1, sessions=3, ways=None):
    """Host 1 asks for mappings, the next ones have them, then two agents, the first one at work;
    etcd is on the last host. ways: gets the first one's way to etcd.
    """
    lab = Lab(t, nodes + 4)
    a, *others, c, d, last = lab.hosts
    etcd = Etcd(last)
    services = [{**LASTING[0], "limits": {"sessions": sessions}}]
    for central in (c, d):
        more = {}
        if ways is not None and central is c:
            ways.append(Proxy(last, 4000, (last.ip, ETCD_PORT)))
            more = {"etcd": [ways[0].url]}
        agent(central, etcd, services, cluster=more)
        t.until(lambda central=central: ("pma", f"host{central.number}") in roles(central), 15,
                "the role to be told")
    a.start(**asking(a))
    for host in others:
        node(host, etcd)
    at_work(t, c, *others)
    return etcd, a, others, c, d


@case(timeout=120)
def the_next_one_takes_over(t):
    etcd, a, (b, b2), c, d = two_agents(t, nodes=2)
    t.equal(roles(b), {("pma", "host4"): True, ("pma", "host5"): False}, "who is asked")
    for host, port in ((b, 1), (b2, 2)):
        t.equal(a.map(host, SERVICE, cp_port=port)["outcome"], "mapped", "of three")
    t.equal((held(c), held(d), known(d)), (2, 0, set()), "on the books of the first only")
    turns = link(b, "turns")
    t.kill(c.daemon)
    t.equal(a.map(b, SERVICE, cp_port=3)["outcome"], "refused", "nobody to ask: no")
    at_work(t, d, b, b2)
    t.equal(link(b, "turns"), turns + 1, "turns")
    t.equal((held(d), b.device("rnic0")["promised"], b2.device("rnic0")["promised"]), (2, 1, 1),
            "the nodes have told what they hold, and hold it")
    t.equal(a.map(b2, SERVICE, cp_port=4)["outcome"], "mapped", "the third")
    t.equal(a.map(b, SERVICE, cp_port=5)["outcome"], "refused", "and no more")
    # The first one comes back, and stands by.
    c.restart()
    told(t, c, ("pma", "host4"), ("pma", "host5"))
    t.equal(roles(b), {("pma", "host4"): False, ("pma", "host5"): True}, "who is asked")
    t.check(not state(c)["roles"]["agent-here"] and known(c) == set(), "it stands by")
    t.equal((held(d), link(b, "turns")), (3, turns + 1), "nothing has changed by that")
    # One that ends in order is replaced at once: its lease is revoked.
    t.stop(d.daemon, signal.SIGTERM)
    at_work(t, c, b, b2)
    t.equal(held(c), 3, "told again")
    t.equal(a.map(b, SERVICE, cp_port=6)["outcome"], "refused", "the limit")
    said = rsock(t, b, "roles")
    t.check(any(line.split()[:2] == ["pma", "host4"] and line.rstrip().endswith("yes")
                for line in said.splitlines()), said)
    t.check("host4" in rsock(t, b, "show"), "show")
    t.equal(b.daemon.err().count("the central policy agent is host5"), 1, b.daemon.err())
    t.check("is now the central policy agent" in c.daemon.err(), c.daemon.err())


def in_name_of(who, role):
    """A report with the revision of the role by which the agent was found."""
    return {"node": who, "boot": BOOT, "resume": True, "part": 0, "last": True, "load": 0.5,
            "devices": [], "held": [], "role": role}


@case(timeout=120)
def one_that_was_stopped_does_not_go_on(t):
    """The agent at work is stopped for longer than its lease: what it is asked when it goes on is
    not answered, though it has heard nothing of the other one yet, and it stands by.
    """
    ways = []
    etcd, a, (b,), c, d = two_agents(t, ways=ways)
    t.equal(a.map(b, SERVICE, cp_port=1)["outcome"], "mapped", "before")
    kv = etcd.do("kv/range", key=b64(f"{PREFIX}/roles/pma/host3"))["kvs"][0]
    role = int(kv["create_revision"])
    t.check(b" 200 " in say(b, c, in_name_of("other", role), None), "its role")
    t.check(b" 503 " in say(b, c, in_name_of("other", role + 1), None), "another role")
    t.check(b" 503 " in say(b, d, in_name_of("other", role), None), "another agent")
    c.daemon.popen.send_signal(signal.SIGSTOP)
    ways[0].silent = True
    at_work(t, d, b)
    answers = []
    asked = threading.Thread(target=lambda: answers.append(
        say(b, c, in_name_of("late", role), None)))
    asked.start()
    t.equal(a.map(b, SERVICE, cp_port=2)["outcome"], "mapped", "by the other one")
    c.daemon.popen.send_signal(signal.SIGCONT)
    asked.join(20)
    t.check(answers and b" 503 " in answers[0], answers)
    ways[0].silent = False
    told(t, c, ("pma", "host3"), ("pma", "host4"))
    t.until(lambda: known(c) == set() and held(c) == 0, 20, "it to know no node")
    t.equal((known(d), held(d)), ({"host2"}, 2), "who is at work")
    t.equal(a.map(b, SERVICE, cp_port=3)["outcome"], "mapped", "the third")
    t.equal(a.map(b, SERVICE, cp_port=4)["outcome"], "refused", "and no more")
    t.check("is not any more the central policy agent" in c.daemon.err(), c.daemon.err())


@case(timeout=120)
def etcd_is_away(t):
    """What was known last holds; and at a start without etcd nobody is known."""
    etcd, a, (b,), c, d = two_agents(t, sessions=9)
    t.equal(a.map(b, SERVICE, cp_port=1)["outcome"], "mapped", "before")
    turns = link(b, "turns")
    etcd.kill()
    registered(t, c, False)  # its lease is over by its own clock
    registered(t, d, False)
    t.equal(a.map(b, SERVICE, cp_port=2)["outcome"], "mapped", "without etcd")
    t.equal((held(c), held(d), link(b, "turns")), (2, 0, turns), "by the same agent")
    t.stop(b.daemon)
    b.restart()
    meets(t, b, "not known")
    t.equal(a.map(b, SERVICE, cp_port=3)["outcome"], "refused", "nobody is known: as if silent")
    b.write_config(**{**b.config, "pma": {**b.config["pma"], "if-silent": "local"}})
    b.post("/v1/reload", {})
    t.equal(a.map(b, SERVICE, cp_port=4)["outcome"], "mapped", "on our own word")
    etcd.start()
    for host in (b, c, d):
        registered(t, host)
    t.until(lambda: state(c)["roles"]["agent-here"] != state(d)["roles"]["agent-here"], 20,
            "one to have the role")
    at_work(t, c if state(c)["roles"]["agent-here"] else d, b)
    t.equal(a.map(b, SERVICE, cp_port=5)["outcome"], "mapped", "again")


@case(timeout=120)
def what_is_open_when_a_role_moves(t):
    """The agent with the role accepts, and says nothing; it goes while questions are open. Each is
    answered once, and nothing stays booked for a question that nobody waits for.
    """
    lab = Lab(t, 4)
    a, b, c, last = lab.hosts
    etcd = Etcd(last)
    lease = etcd.do("lease/grant", TTL="600")["ID"]
    with last.inside():
        mute = socket.create_server((last.ip, PORT))
    etcd.do("kv/put", key=b64(f"{PREFIX}/roles/pma/mute"), lease=lease,
            value=b64(json.dumps({"node": "mute", "address": last.ip, "port": PORT})))
    agent(c, etcd, LASTING)
    a.start(**asking(a))
    node(b, etcd, pma={"timeout": "2s"})
    told(t, b, ("pma", "mute"), ("pma", "host3"))
    t.equal(b.get("/v1/status")["pma"]["central"]["ip"], last.ip, "who is asked")
    outcomes = []
    asking_now = [threading.Thread(target=lambda port=port: outcomes.append(
        a.map(b, SERVICE, cp_port=port)["outcome"])) for port in range(1, 9)]
    for one in asking_now:
        one.start()
    t.until(lambda: a.counts("client")["sends"] == 8, 10, "requests to be under way")
    etcd.do("lease/revoke", ID=lease)
    for one in asking_now:
        one.join(30)
    at_work(t, c, b)
    t.equal(len(outcomes), 8, outcomes)
    t.equal(held(c), b.device("rnic0")["promised"], "on the books of both")
    t.equal(b.device("rnic0")["promised"], outcomes.count("mapped"), outcomes)
    t.equal(a.map(b, SERVICE, cp_port=9)["outcome"], "mapped", "later")
    mute.close()


WRONG = [{"node": "host3"}, {"node": 5}, {"address": "0.0.0.0"}, {"address": "::"},
         {"address": "127.0.0.1"}, {"address": "224.0.0.1"}, {"address": "255.255.255.255"},
         {"address": "169.254.1.1"}, {"address": "fe80::1"}, {"address": "ff02::1"},
         {"address": "::1"}, {"address": "host3"}, {"address": "10.77.0.9\0x"}, {"address": 5},
         {"port": 0}, {"port": 65536}, {"port": -1}, {"port": "3936"}, {"port": 1.5},
         {"port": None}]


@case(timeout=120)
def garbage_among_the_roles(t):
    """It is older than any agent's entry, and asked by nobody."""
    lab = Lab(t, 4)
    a, b, c, last = lab.hosts
    etcd = Etcd(last)
    lease = etcd.do("lease/grant", TTL="600")["ID"]
    values = {f"pma/x{number:02d}": value for number, value in enumerate(GARBAGE)}
    for number, change in enumerate(WRONG):
        name = f"y{number:02d}"
        values[f"pma/{name}"] = json.dumps({"node": name, "address": last.ip, "port": PORT,
                                            **change})
    good = json.dumps({"node": "z", "address": last.ip, "port": PORT})
    values |= {"z": good, "pma": good, "pma/": good, "PMA/z": good, "pmb/z": good,
               "pma/z/": good, "pma/\x1b[2J": good, f"pma/{'k' * 80}": good,
               f"pma/{'k' * 600}": good}
    for name, value in values.items():
        etcd.do("kv/put", key=b64(f"{PREFIX}/roles/{name}"), value=b64(value), lease=lease)
    etcd.put(good, f"{PREFIX}/roles/pma/z")  # without a lease: it would never go
    agent(c, etcd, IPERF)
    node(b, etcd)
    a.start(**asking(a))
    for restarted in (False, True):
        if restarted:
            t.stop(b.daemon)
            b.restart()
        told(t, b, ("pma", "host3"))
        at_work(t, c, b)
        answer = b.get("/v1/policy/roles")
        t.equal((len(answer["unreadable"]), answer["more"]), (len(values), True), answer)
        said = rsock(t, b, "roles")
        t.check("\x1b" not in said and said.count("unreadable") == len(values), said)
    t.equal(a.map(b, SERVICE)["outcome"], "mapped", "by the agent that is one")
    # The agent's own entry is overwritten: it is written again.
    etcd.put("x", f"{PREFIX}/roles/pma/host3")
    t.until(lambda: c.figure("cluster_roles_losses_total") == 1, 15, "it to be noticed")
    at_work(t, c, b)
    etcd.do("kv/deleterange", key=b64(f"{PREFIX}/roles/pma/host3"))
    t.until(lambda: c.figure("cluster_roles_losses_total") == 2, 15, "it to be noticed")
    at_work(t, c, b)
    t.check(all(host.daemon.popen.poll() is None for host in (b, c)), "the daemons run")


@case(timeout=120)
def an_agent_without_a_certificate_of_its_address(t):
    """With TLS an entry in etcd makes nobody an agent."""
    lab = Lab(t, 4)
    _, b, c, last = lab.hosts
    etcd = Etcd(last)
    us = Certificates(t, "us")
    lease = etcd.do("lease/grant", TTL="600")["ID"]
    etcd.do("kv/put", key=b64(f"{PREFIX}/roles/pma/evil"), lease=lease,
            value=b64(json.dumps({"node": "evil", "address": last.ip, "port": PORT})))
    # It has a certificate of the authority, but as a node.
    agent(last, etcd, IPERF, pma=tls(us, us.sign("evil", dns="evil")))
    agent(c, etcd, IPERF, pma=tls(us, us.sign("central", c.ip)))
    node(b, etcd, pma=tls(us, us.sign("b", dns="host2")))
    t.until(lambda: b.get("/v1/status")["pma"]["central"]["ip"] == last.ip, 15, "it to be chosen")
    meets(t, b, "silent")
    failures = link(b, "failures")
    t.until(lambda: link(b, "failures") > failures + 3, 20, "attempts")
    t.equal((known(last), serves(last)["count"]["stood_by"]), (set(), 0), "nothing was said to it")
    etcd.do("lease/revoke", ID=lease)
    t.stop(last.daemon)
    at_work(t, c, b)


PMSP = {"client": {"central": "cluster", "max-sends": 2, "rto-first": "100ms",
                   "silent-time": "2s"}}


def pmsp(host, etcd, **more):
    return host.start(**serving(host, cluster=of(etcd, redirect=True), **more))


def asks(t, host, central):
    """Waits until this central PMSP is the first that the host's client asks."""
    name = central.config["node"]
    t.until(lambda: roles(host).get(("pmsp", name)), 15, f"host {host.number} to ask {name}")


@case(timeout=120)
def central_pmsps(t):
    """One that is killed is replaced at once, for questions that are open, too; one that is new
    gets its part.
    """
    lab = Lab(t, 4)
    a, p, q, last = lab.hosts
    etcd = Etcd(last)
    a.start(**asking(a, cluster=of(etcd), **PMSP))
    t.until(lambda: state(a)["roles"]["in-sync"], 15, "the roles to be known")
    answer = a.map(p, SERVICE)
    t.equal((answer["outcome"], a.counts("client")["sends"]), ("no-answer", 0), "none is known")
    pmsp(p, etcd)
    asks(t, a, p)
    answer = a.map(p, SERVICE, cp_port=1)
    t.equal((answer["outcome"], answer["asked"]["ip"]), ("mapped", p.ip), answer)
    # The order is by the names: one of these comes before the first one.
    for number in range(40):
        pmsp(q, etcd, node=f"other{number}")
        t.until(lambda number=number: ("pmsp", f"other{number}") in roles(a), 15, "it to be known")
        if roles(a)[("pmsp", f"other{number}")]:
            break
        t.stop(q.daemon, signal.SIGTERM)
    asks(t, a, q)
    answer = a.map(q, SERVICE, cp_port=2)
    t.equal((answer["outcome"], answer["asked"]["ip"]), ("mapped", q.ip), "the new one's part")
    # Killed: the question goes to the next one, and further questions go there at once.
    t.kill(q.daemon)
    answer = a.map(p, SERVICE, cp_port=3)
    t.equal((answer["outcome"], answer["asked"]["ip"]), ("mapped", p.ip), "the next one")
    sends = a.counts("client")["sends"]
    answer = a.map(p, SERVICE, cp_port=4)
    t.equal((answer["outcome"], a.counts("client")["sends"]), ("mapped", sends + 1), "at once")
    told(t, a, ("pmsp", "host2"))
    # etcd is away: those that were known last are asked.
    etcd.kill()
    t.until(lambda: not state(a)["roles"]["in-sync"], 15, "etcd to be missed")
    t.equal(a.map(p, SERVICE, cp_port=5)["outcome"], "mapped", "without etcd")
    # All are silent.
    t.kill(p.daemon)
    t.equal(a.map(p, SERVICE, cp_port=6)["outcome"], "no-answer", "nobody is left")


@case(timeout=60)
def at_which_address(t):
    """Where others reach a host that listens at all of its addresses."""
    lab = Lab(t, 3)
    a, c, last = lab.hosts
    etcd = Etcd(last)

    def where(host):
        return {one["address"] for one in host.get("/v1/policy/roles")["roles"]}
    anywhere = f"0.0.0.0:{PORT}"
    agent(c, etcd, IPERF, anywhere)
    t.until(lambda: state(c)["roles"]["not-told"], 15, "it to be not known")
    t.until(lambda: "cluster.address" in c.daemon.err(), 10, c.daemon.err())
    t.check("cluster.address" in rsock(t, c, "roles"), "the tool")
    t.equal(where(c), set(), "roles")
    for more, address in (({"rnics": [{"name": "r", "addresses": ["10.77.0.77"]}]}, "10.77.0.77"),
                          ({"cluster": {"address": c.ip}}, c.ip),
                          ({"cluster": {"address": c.ip},
                            "rnics": [{"name": "r", "addresses": ["10.77.0.77"]}]}, c.ip)):
        t.stop(c.daemon, signal.SIGTERM)
        agent(c, etcd, IPERF, anywhere, **json.loads(json.dumps(more)))
        t.until(lambda address=address: where(c) == {address}, 15, f"{address} to be told")
    path = a.write_config(**serving(a, pma={"central": "cluster"}))
    proc = a.run([f"{t.bin}/rsockd", "-c", path])
    t.wait(proc, 20, expect=1)
    t.check("there is no cluster" in proc.err(), proc.err())


if __name__ == "__main__":
    sys.exit(main())
