#!/usr/bin/python3
"""rsockd's part of rails between hosts: a connection is mapped to the port where the peer's process
accepts rails, a process is admitted there only as granted, and what is held for a stream is
released with it.
"""
import os
import socket
import sys

import local
import netlab
import pm
from lib.harness import case, main
from net_liars import stat_reason
from net_local import ALICE, BOB, MALLORY, PORT
from net_rsockd import asking, serving
from netlab import Lab, ip

RAIL_A, RAIL_B = 40001, 40002
NO_ANSWER_S = 1
ELSEWHERE = "10.77.0.9"
AT_ONCE = 64  # questions and promises of one process (mapper/rsockd/session/local_ask.c)


def serves(host, **more):
    return serving(host, services=[{"name": "it", "ports": [str(PORT)], **more}])


def hosts(t, of_a=None, of_b=None):
    a, b = Lab(t, 2).hosts
    a.start(**{**asking(a), **(of_a or {})})
    b.start(**{**serves(b), **(of_b or {})})
    return a, b


def guest(host, uid, rail, able=False):
    client = local.Client(host.local, uid)
    client.say(local.HELLO, flags=local.ABLE if able else 0)
    if rail:
        client.say(local.RDMA, port=rail)
    return client


class Connection:
    """A TCP connection between two hosts, with one user at each end, and its listener."""

    def __init__(self, a, b, connecting=BOB, accepting=ALICE, port=PORT):
        with b.inside(), local.as_user(accepting):
            self.listener = socket.create_server((b.ip, port))
        with a.inside(), local.as_user(connecting):
            self.near = socket.create_connection((b.ip, port))
        with local.as_user(accepting):
            self.far, _address = self.listener.accept()

    def listening(self):
        ip, port = self.listener.getsockname()
        return {"netns": local.option64(self.listener, local.SO_NETNS_COOKIE),
                "local": socket.inet_aton(ip),
                "local_port": port, "family": socket.AF_INET,
                "cookie": local.option64(self.listener, local.SO_COOKIE),
                "fd": self.listener.fileno()}


def answer(t, client, what):
    message, _fds = client.hear()
    t.check(message and message["type"] == local.ANSWER, f"{what}: {message}")
    return stat_reason(t, message), message


def looked_up(t, client, sock, connecting, want, what="LOOKUP"):
    client.look_up(sock, connecting)
    reason, message = answer(t, client, what)
    t.equal(reason, want, what)
    return message


def mapped(t, a, b, c, server, client):
    """Both ends ask; returns the answer to the connecting end."""
    looked_up(t, server, c.far, False, "remote", "the accepting end")
    return looked_up(t, client, c.near, True, "mapped", "the connecting end")


def link(t, client, sock, handle, **more):
    """Sends a LINK message for a stream. The caller reads the answer, if there is one."""
    client.say(local.LINK, **{**local.name_of(sock), "link": handle, **more})


def at(host, port, **more):
    return {"ip": pm.packed(host.ip), "port": port, "ipv": 4, **more}


def held(host, sessions, promised=0):
    device = host.device("rnic0")
    return (device["sessions"], device["promised"]) == (sessions, promised)


def silent(t, client):
    """Checks that no answer is under way: the next answer must be that of another question."""
    client.say(local.LOOKUP, netns=1, local=b"\1", peer=b"\2", local_port=1, peer_port=2,
               family=socket.AF_INET, cookie=77)
    message, _fds = client.hear()
    t.equal(message and message["cookie"], 77, "an answer that should not have come")


@case(timeout=60)
def from_the_question_to_the_end(t):
    a, b = hosts(t)
    c = Connection(a, b)
    server, client = guest(b, ALICE, RAIL_B), guest(a, BOB, RAIL_A)
    said = mapped(t, a, b, c, server, client)
    t.equal((said["ip"], said["port"], said["ipv"], said["from_ip"]),
            (pm.packed(b.ip), RAIL_B, 4, pm.packed(a.ip)),
            "where to, and where from")
    t.check(said["link"], "the mapping has a name")
    t.check(held(a, 1, 1) and held(b, 1, 1), "promised at both ends")
    t.equal(b.get("/v1/status")["ports"], 0, "listen ports that were made")
    link(t, server, c.far, said["link"], **at(b, RAIL_B, from_ip=pm.packed(a.ip)))
    t.equal(answer(t, server, "LINK")[0], "mapped", "let in")
    t.check(held(b, 1), "used at the accepting end")
    t.equal(b.get("/v1/status")["open"], 0, "what the PMSP still holds")
    link(t, server, c.far, said["link"], **at(b, RAIL_B))
    t.equal(answer(t, server, "LINK")[0], "mapped", "asked once more, since the answer may be lost")
    link(t, client, c.near, said["link"], flags=local.CONNECTING, from_ip=pm.packed(a.ip))
    silent(t, client)
    t.check(held(a, 1), "used at the connecting end")
    t.equal((a.figure("local_links_total"), b.figure("local_links_total")), (1, 1), "links")
    server.say(local.UNLINK, link=said["link"])
    silent(t, server)
    t.check(held(b, 0), "given back by word")
    client.close()
    t.until(lambda: held(a, 0), 10, "to be given back with the process")


@case(timeout=60)
def a_process_that_accepts_when_it_is_asked(t):
    """Neither end has a port before there is something to accept; no client is sent to a port at
    which no process listens.
    """
    a, b = hosts(t)
    c = Connection(a, b)
    server, client = guest(b, ALICE, 0, able=True), guest(a, BOB, 0, able=True)
    server.say(local.LISTEN, **c.listening())
    t.until(lambda: b.figure("listeners") == 1, 10, "the listener")
    client.look_up(c.near, True)
    t.until(lambda: b.figure("policy_waited_total") == 1, 10, "the PMReq to wait")
    looked_up(t, server, c.far, False, "remote")
    silent(t, server)
    t.equal((b.figure("policy_waited_total"), held(b, 0)), (1, True), "waits for the port, too")
    server.say(local.RDMA, port=RAIL_B)
    reason, said = answer(t, client, "LOOKUP")
    t.equal((reason, said["port"]), ("mapped", RAIL_B), "the answer")
    t.check(held(a, 1, 1) and held(b, 1, 1), "promised at both ends")
    t.equal(b.get("/v1/status")["ports"], 0, "listen ports that were made")
    # Now the accepting end has asked already, but its port does not exist yet.
    c.listener.close()
    c = Connection(a, b)
    server = guest(b, ALICE, 0, able=True)
    looked_up(t, server, c.far, False, "remote")
    client.look_up(c.near, True)
    t.until(lambda: b.figure("policy_waited_total") == 2, 10, "the second PMReq to wait")
    server.say(local.RDMA, port=RAIL_B)
    reason, said = answer(t, client, "LOOKUP")
    t.equal((reason, said["port"]), ("mapped", RAIL_B), "the second answer")


@case(timeout=60)
def the_port_never_comes(t):
    a, b = hosts(t, of_b={"pmsp": {"ask-time": "500ms"}})
    c = Connection(a, b)
    server, client = guest(b, ALICE, 0, able=True), guest(a, BOB, 0, able=True)
    looked_up(t, server, c.far, False, "remote")
    t.equal(looked_up(t, client, c.near, True, "peer-policy")["port"], 0, "denied in the end")
    t.check(held(a, 0) and held(b, 0), "nothing is held")


@case(timeout=60)
def the_accepting_end_comes_late(t):
    a, b = hosts(t)
    c = Connection(a, b)
    server, client = guest(b, ALICE, RAIL_B), guest(a, BOB, RAIL_A)
    server.say(local.LISTEN, **c.listening())
    t.until(lambda: b.figure("listeners") == 1, 10, "the listener")
    client.look_up(c.near, True)
    t.until(lambda: b.figure("policy_waited_total") == 1, 10, "the PMReq to wait")
    t.until(lambda: b.counts()["duplicates"] >= 1, 10, "the PMReq to come again")
    t.check(held(b, 0), "nothing is promised before")
    looked_up(t, server, c.far, False, "remote")
    reason, said = answer(t, client, "LOOKUP")
    t.equal((reason, said["port"]), ("mapped", RAIL_B), "the answer")
    t.equal((b.figure("policy_came_total"), b.counts()["accepts"], a.counts("client")["mapped"]),
            (1, 1, 1), "once")
    link(t, server, c.far, said["link"], **at(b, RAIL_B))
    t.equal(answer(t, server, "LINK")[0], "mapped", "let in")


@case(timeout=60)
def who_accepted_listens_no_more(t):
    """As for FTP's data connections: the connection exists, and its end is waited for though the
    listener is closed.
    """
    a, b = hosts(t)
    c = Connection(a, b)
    c.listener.close()
    server, client = guest(b, ALICE, RAIL_B), guest(a, BOB, RAIL_A)
    t.until(lambda: b.figure("rails") == 1, 10, "the one who accepts rails")
    client.look_up(c.near, True)
    t.until(lambda: b.figure("policy_waited_total") == 1, 10, "the PMReq to wait")
    looked_up(t, server, c.far, False, "remote")
    reason, said = answer(t, client, "LOOKUP")
    t.equal((reason, said["port"], b.get("/v1/status")["ports"]), ("mapped", RAIL_B, 0),
            "the answer")


@case(timeout=60)
def the_accepting_end_does_not_come(t):
    a, b = hosts(t, of_b={"pmsp": {"ask-time": "500ms"}})
    c = Connection(a, b)
    server, client = guest(b, ALICE, RAIL_B), guest(a, BOB, RAIL_A)
    server.say(local.LISTEN, **c.listening())
    t.until(lambda: b.figure("listeners") == 1, 10, "the listener")
    looked_up(t, client, c.near, True, "peer-policy")
    t.equal((b.counts()["denies"], b.get("/v1/status")["open"]), (1, 0), "denied, and forgotten")
    # It asks again: the refusal is not remembered.
    looked_up(t, server, c.far, False, "remote")
    t.equal(looked_up(t, client, c.near, True, "mapped")["port"], RAIL_B, "the second time")


@case(timeout=60)
def a_connection_that_is_not_there(t):
    """A peer that names another port of its own, as a stock PM client does, does not wait for a
    process.
    """
    a, b = hosts(t, of_b={"pmsp": {"ask-time": "20s"}})
    c = Connection(a, b)
    server = guest(b, ALICE, RAIL_B)
    server.say(local.LISTEN, **c.listening())
    t.until(lambda: b.figure("listeners") == 1, 10, "the listener")
    answer_ = a.map(b, PORT, cp_port=c.near.getsockname()[1] ^ 1)
    t.equal((answer_["outcome"], b.figure("policy_waited_total")), ("mapped", 0), answer_)
    t.check(answer_["rdma"]["port"] != RAIL_B, "a made port")


@case(timeout=60)
def nobody_accepts_rails(t):
    """Neither process accepts rails: a port is made as without them, and nothing is held for a
    process that cannot use it.
    """
    a, b = hosts(t)
    c = Connection(a, b)
    server, client = guest(b, ALICE, 0), guest(a, BOB, 0)
    server.say(local.LISTEN, **c.listening())
    said = mapped(t, a, b, c, server, client)
    t.check(said["port"] not in (0, RAIL_B), said)
    t.equal((b.get("/v1/status")["ports"], b.figure("policy_waited_total")), (1, 0),
            "ports made, PMReq that waited")
    t.check(held(a, 0), "given back at once")
    link(t, client, c.near, said["link"], flags=local.CONNECTING)
    t.equal(answer(t, client, "LINK")[0], "not-holder", "of what is not held")


@case(timeout=60)
def no_more_rails(t):
    a, b = hosts(t)
    c = Connection(a, b)
    server, client = guest(b, ALICE, RAIL_B), guest(a, BOB, RAIL_A)
    said = mapped(t, a, b, c, server, client)
    server.say(local.RDMA, port=0)
    link(t, server, c.far, said["link"], **at(b, RAIL_B))
    t.equal(answer(t, server, "LINK")[0], "not-holder", "at a port that it has no more")
    t.check(looked_up(t, client, c.near, True, "mapped")["port"] != RAIL_B, "a made port")


@case(timeout=60)
def links_that_nobody_announced(t):
    a, b = hosts(t)
    c, other = Connection(a, b), Connection(a, b, port=PORT + 1)
    server, client = guest(b, ALICE, RAIL_B), guest(a, BOB, RAIL_A)
    said = mapped(t, a, b, c, server, client)
    wrong = {
        "another handle": (c.far, said["link"] ^ 1, at(b, RAIL_B)),
        "another connection": (other.far, said["link"], at(b, RAIL_B)),
        "another port": (c.far, said["link"], at(b, RAIL_B + 1)),
        "another address": (c.far, said["link"], {**at(b, RAIL_B), "ip": pm.packed("10.77.0.9")}),
        "from elsewhere": (c.far, said["link"], at(b, RAIL_B, from_ip=pm.packed(ELSEWHERE))),
        "another socket": (c.far, said["link"], at(b, RAIL_B, cookie=1)),
    }
    for what, (sock, handle, more) in wrong.items():
        link(t, server, sock, handle, **more)
        t.equal(answer(t, server, what)[0],
                "other-source" if what == "from elsewhere" else "not-holder", what)
    t.equal(b.figure("local_links_refused_total"), len(wrong), "refused")
    t.check(held(b, 1, 1), "what was promised is as it was")
    link(t, server, c.far, said["link"], **at(b, RAIL_B))
    t.equal(answer(t, server, "LINK")[0], "mapped", "the right one")
    link(t, server, other.far, said["link"], **at(b, RAIL_B))
    t.equal(answer(t, server, "LINK")[0], "not-holder", "a name that is in use")


@case(timeout=60)
def where_a_link_comes_from(t):
    """The accepting process is told the address that the PMReq has named: the TCP connection's own,
    or that of another RNIC. A link that has come from elsewhere is refused.
    """
    a, b = Lab(t, 2).hosts
    ip("-n", a.ns, "address", "add", "10.77.0.101/16", "dev", "lan")
    b.start(**serves(b))
    for rnic in (a.ip, "10.77.0.101"):
        a.start(**{**asking(a), "rnics": [{"name": "rnic0", "addresses": [rnic]}]})
        c = Connection(a, b)
        server, client = guest(b, ALICE, RAIL_B), guest(a, BOB, RAIL_A)
        said = mapped(t, a, b, c, server, client)
        t.equal(said["from_ip"], pm.packed(rnic), "the connecting end's")
        for from_ip in {a.ip, "10.77.0.101", ELSEWHERE} - {rnic}:
            link(t, server, c.far, said["link"], **at(b, RAIL_B, from_ip=pm.packed(from_ip)))
            t.equal(answer(t, server, "LINK")[0], "other-source", f"{from_ip}, not {rnic}")
        for from_ip in (b"", b"", pm.packed(rnic)):
            link(t, server, c.far, said["link"], **at(b, RAIL_B, from_ip=from_ip))
            reason, told = answer(t, server, "LINK")
            t.equal((reason, told["from_ip"]), ("mapped", pm.packed(rnic)),
                    "admitted if it comes from there")
        link(t, server, c.far, said["link"], **at(b, RAIL_B, from_ip=pm.packed(ELSEWHERE)))
        t.equal(answer(t, server, "LINK")[0], "other-source", "another link claims the stream")
        link(t, server, c.far, said["link"], **at(b, RAIL_B, from_ip=pm.packed(rnic)))
        t.equal(answer(t, server, "LINK")[0], "mapped", "that takes nothing from the stream")
        link(t, server, c.far, said["link"], flags=local.PAIR, **at(b, RAIL_B))
        t.equal(answer(t, server, "LINK")[1]["flags"], local.PAIR, "of a link that exists")
        for one in (server, client):
            one.close()
        c.listener.close()
        t.kill(a.daemon)
        a.daemon = None


@case(timeout=60)
def others_who_claim_a_link(t):
    """Another user's process gains nothing by what it knows, and takes nothing from the processes
    that hold the link.
    """
    a, b = hosts(t)
    c = Connection(a, b)
    server, client = guest(b, ALICE, RAIL_B), guest(a, BOB, RAIL_A)
    thief, here = guest(b, MALLORY, RAIL_B), guest(a, MALLORY, RAIL_A)
    said = mapped(t, a, b, c, server, client)
    for flags in (0, local.AGAIN):
        link(t, thief, c.far, said["link"], flags=flags, **at(b, RAIL_B))
        t.equal(answer(t, thief, "LINK")[0], "not-holder", "of another's connection")
        link(t, here, c.near, said["link"], flags=flags | local.CONNECTING)
        t.equal(answer(t, here, "LINK")[0], "not-holder", "of another's connection")
    for guest_ in (thief, here):
        guest_.say(local.UNLINK, link=said["link"])
        guest_.say(local.RDMA, port=0)
        silent(t, guest_)
        guest_.close()
    t.until(lambda: a.figure("processes") == 1 and b.figure("processes") == 1, 10,
            "them to be gone")
    t.check(held(a, 1, 1) and held(b, 1, 1), "what was promised is as it was")
    link(t, server, c.far, said["link"], **at(b, RAIL_B))
    t.equal(answer(t, server, "LINK")[0], "mapped", "who may")
    link(t, client, c.near, said["link"], flags=local.CONNECTING)
    silent(t, client)
    t.check(held(a, 1) and held(b, 1), "in use")


@case(timeout=60)
def a_port_that_is_not_its_own(t):
    """A process names a port that was made for a service: that port is not released with the
    process's grant.
    """
    a, b = hosts(t, of_b={"services": [{"name": "it", "ports": ["6000", str(PORT)]}]})
    made = a.map(b, 6000, cp_port=5)["rdma"]["port"]
    c = Connection(a, b, accepting=MALLORY)
    server, client = guest(b, MALLORY, made), guest(a, BOB, RAIL_A)
    said = mapped(t, a, b, c, server, client)
    t.equal(said["port"], made, "as it says")
    for _ in range(2):
        link(t, server, c.far, said["link"], **at(b, made))
        t.equal(answer(t, server, "LINK")[0], "mapped", "its own connection")
        server.say(local.UNLINK, link=said["link"])
        said = mapped(t, a, b, c, server, client)
    t.equal(b.get("/v1/status")["ports"], 1, "the port is still there")
    t.equal(a.map(b, 6000, cp_port=6)["rdma"]["port"], made, "the same service")


@case(timeout=90)
def what_nobody_makes_use_of(t):
    a, b = hosts(t, of_b={"pmsp": {"accept-time": "2s"}})
    c = Connection(a, b)
    server, client = guest(b, ALICE, RAIL_B), guest(a, BOB, RAIL_A)
    said = mapped(t, a, b, c, server, client)
    t.until(lambda: held(b, 0), 10, "the accepting end's to be over")
    link(t, server, c.far, said["link"], **at(b, RAIL_B))
    t.equal(answer(t, server, "LINK")[0], "not-holder", "too late")
    t.check(held(a, 1, 1), "the connecting end's is held")
    t.until(lambda: held(a, 0), 40, "the connecting end's to be over")
    t.equal(a.figure("local_unused_total"), 1, "mappings that nobody used")
    link(t, client, c.near, said["link"], flags=local.CONNECTING)
    t.equal(answer(t, client, "LINK")[0], "not-holder", "too late")


@case(timeout=60)
def a_process_asks_for_many(t):
    """A process is promised no more at once than it can use in time; each promise that is used, or
    given back, makes room for the next.
    """
    a, b = hosts(t)
    first = Connection(a, b)
    pairs = [(first.near, first.far)]
    for _ in range(99):
        with a.inside(), local.as_user(BOB):
            near = socket.create_connection((b.ip, PORT))
        with local.as_user(ALICE):
            pairs.append((near, first.listener.accept()[0]))
    server, client = guest(b, ALICE, RAIL_B), guest(a, BOB, RAIL_A)
    server.say(local.LISTEN, **first.listening())
    for _near, far in pairs:
        server.look_up(far, False)
        t.equal(answer(t, server, "the accepting end")[0], "remote", "the accepting end")
    # a process that waits for its turn and asks again has one turn
    for near, _far in pairs + pairs[AT_ONCE:]:
        client.look_up(near, True)
    promised = [answer(t, client, "a connecting end") for _ in range(AT_ONCE)]
    t.equal({reason for reason, _message in promised}, {"mapped"}, "what was answered")
    silent(t, client)
    t.check(held(a, AT_ONCE, AT_ONCE), "promised at once")
    of = {near.fileno(): near for near, _far in pairs}
    for number, (_reason, message) in enumerate(promised[:20]):
        if number % 2:
            link(t, client, of[message["fd"]], message["link"], flags=local.CONNECTING,
                 from_ip=pm.packed(a.ip))
        else:
            client.say(local.UNLINK, link=message["link"])
        promised.append(answer(t, client, "the next"))
    t.check(held(a, AT_ONCE + 10, AT_ONCE), "promised, and in use")
    for _reason, message in promised[20:]:
        client.say(local.UNLINK, link=message["link"])
    promised += [answer(t, client, "one of the last") for _ in range(len(pairs) - len(promised))]
    silent(t, client)
    t.equal((len({message["cookie"] for _reason, message in promised}),
             {reason for reason, _message in promised}),
            (len(pairs), {"mapped"}), "each was answered once")
    client.close()
    t.until(lambda: held(a, 0), 10, "what was left to be given back")


@case(timeout=60)
def another_daemon_is_told_again(t):
    """Streams in use go on under a new rsockd, as far as its rules and limits allow."""
    a, b = hosts(t, of_b={"services": [{"name": "it", "ports": [str(PORT)],
                                        "limits": {"sessions": "1"}}]})
    c = Connection(a, b)
    server, client = guest(b, ALICE, RAIL_B), guest(a, BOB, RAIL_A)
    said = mapped(t, a, b, c, server, client)
    link(t, server, c.far, said["link"], **at(b, RAIL_B))
    t.equal(answer(t, server, "LINK")[0], "mapped", "let in")
    for host in (a, b):
        t.kill(host.daemon)
        host.restart()
    server, client = guest(b, ALICE, RAIL_B), guest(a, BOB, RAIL_A)
    t.check(held(a, 0) and held(b, 0), "nothing is known any more")
    link(t, server, c.far, said["link"], **at(b, RAIL_B))
    t.equal(answer(t, server, "LINK")[0], "not-holder", "who comes now was not announced")
    for _ in range(2):
        link(t, server, c.far, said["link"], flags=local.AGAIN, **at(b, RAIL_B))
        t.equal(answer(t, server, "LINK")[0], "mapped", "in use already")
        link(t, client, c.near, said["link"], flags=local.AGAIN | local.CONNECTING,
             from_ip=pm.packed(a.ip))
        silent(t, client)
    t.check(held(a, 1) and held(b, 1), "in use at both ends, once")
    t.equal((a.figure("local_links_again_total"), b.figure("local_links_again_total")), (1, 1),
            "told again")
    with a.inside(), local.as_user(BOB):
        d = socket.create_connection((b.ip, PORT))
    with local.as_user(ALICE):
        far, _address = c.listener.accept()
    link(t, server, far, said["link"] ^ 1, flags=local.AGAIN, **at(b, RAIL_B))
    t.equal(answer(t, server, "LINK")[0], "policy", "more than the service may have")
    server.say(local.UNLINK, link=said["link"])
    silent(t, server)
    t.check(held(b, 0), "given back")
    link(t, server, far, said["link"] ^ 1, flags=local.AGAIN,
         **{**at(b, RAIL_B), "ip": pm.packed("10.77.0.9")})
    t.equal(answer(t, server, "LINK")[0], "no-rnic", "on what is no device of ours")
    link(t, server, far, said["link"] ^ 1, flags=local.AGAIN, **at(b, RAIL_B))
    t.equal(answer(t, server, "LINK")[0], "mapped", "nothing is left of that")
    d.close()


@case(timeout=60)
def a_silent_host_is_asked_again(t):
    """The other host has no rsockd at first: connections that ask again soon find the one that
    starts later.
    """
    a, b = Lab(t, 2).hosts
    a.start(**asking(a, client={"rto-first": "20ms", "max-sends": "3"}))
    c = Connection(a, b)
    client = guest(a, BOB, RAIL_A)
    looked_up(t, client, c.near, True, "no-pmsp")
    sends = a.counts("client")["sends"]
    looked_up(t, client, c.near, True, "no-pmsp")
    t.equal(a.counts("client")["sends"], sends, "PMReq at once")
    b.start(**serves(b))
    server = guest(b, ALICE, RAIL_B)
    looked_up(t, server, c.far, False, "remote")

    def found():
        client.look_up(c.near, True)
        return answer(t, client, "LOOKUP")[0] == "mapped"
    t.until(found, 10, "it to be asked again")


@case(timeout=60)
def a_killed_process_leaves_nothing(t):
    a, b = hosts(t)
    c = Connection(a, b)
    server = guest(b, ALICE, RAIL_B)
    looked_up(t, server, c.far, False, "remote")
    child = os.fork()
    if not child:
        client = guest(a, BOB, RAIL_A)
        for number in range(3):
            client.look_up(c.near, True)
            message, _fds = client.hear()
            client.say(local.LINK, **local.name_of(c.near), link=message["link"],
                       flags=local.CONNECTING)
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    t.until(lambda: a.figure("processes") == 0, 10, "it to be gone")
    t.until(lambda: held(a, 0), 10, "all to be given back")
    t.equal(a.figure("local_links_total"), 3, "streams that were told of")


# ---- devices ----

class Tree:
    """A simulated /sys for a host's rsockd, with RDMA devices that this kernel does not have."""

    def __init__(self, t):
        self.t, self.root = t, t.path("sys")
        os.makedirs(f"{self.root}/class/infiniband")
        netlab.UNDER[:] = ["unshare", "-m", "--propagation", "private", "sh", "-c",
                           f"""mount -t tmpfs none /sys && cp -a {self.root}/. /sys && """
                           """exec "$@" """, "sh"]

    def put(self, host, path, text):
        """Adds a device, before rsockd is started or in rsockd's own /sys."""
        root = f"/proc/{host.daemon.pid}/root/sys" if host.daemon else self.root
        os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
        with open(f"{root}/{path}", "w") as file:
            file.write(text + "\n")
        return root

    def add(self, host, bus, name, link, rate="25 Gb/sec (1X EDR)"):
        at = f"devices/{bus}/infiniband/{name}"
        for path, text in (("node_desc", name), ("ports/1/state", "4: ACTIVE"),
                           ("ports/1/rate", rate),
                           ("ports/1/gid_attrs/ndevs/0", link)):
            root = self.put(host, f"{at}/{path}", text)
        os.symlink(f"../../{at}", f"{root}/class/infiniband/{name}")


REAL, SOFT = "pci0000:00/0000:00:02.0", "virtual"


@case(timeout=60)
def software_devices(t):
    """Software devices are declined on either side unless they are configured, and every tool says
    so.
    """
    tree = Tree(t)
    a, b = Lab(t, 2).hosts
    tree.add(a, SOFT, "rxe0", "lan")
    a.start(**asking(a))
    b.start(**serves(b))
    c = Connection(a, b)
    t.check(a.device("rnic0")["soft"], "it is known as one")
    t.equal(a.figure('device_soft{device="rnic0",node="host1"}'), 1, "and in the figures")
    t.equal(a.map(b, PORT)["verdict"], "soft-rnic", "the connecting side's verdict")
    explained = a.post("/v1/explain", {"ip": b.ip, "port": PORT})
    t.check(explained["verdict"] == "soft-rnic" and "software device" in str(explained["steps"]),
            explained)
    looked_up(t, guest(a, BOB, RAIL_A), c.near, True, "soft-rnic")
    t.equal(a.figure('policy_verdicts_total{verdict="soft-rnic"}'), 2, "counted")
    t.equal(b.counts()["requests"], 0, "PMReq")
    # Configured now: used from the next question on. The other host has one of the same kind.
    a.write_config(**asking(a), **{"soft-rdma": "use"})
    a.post("/v1/reload", {})
    t.equal(a.map(b, PORT, cp_port=1)["outcome"], "refused", "by the accepting side")
    t.equal(b.figure('policy_verdicts_total{verdict="soft-rnic"}'), 1, "its verdict")
    tree.add(b, REAL, "mlx5_0", "lan")
    b.post("/v1/reload", {})
    t.check(not b.device("rnic0")["soft"], "a real one goes before it")
    t.equal(a.map(b, PORT, cp_port=2)["outcome"], "mapped",
            "by the real one there, by software here")
    a.write_config(**asking(a))
    a.post("/v1/reload", {})
    t.equal(a.map(b, PORT)["verdict"], "soft-rnic", "as before")


@case(timeout=60)
def devices_that_nobody_has_named(t):
    tree = Tree(t)
    a, b = Lab(t, 2).hosts
    config = asking(a)
    del config["rnics"]
    tree.add(a, REAL, "mlx5_0", "lan")
    a.start(**config)
    b.start(**serves(b))

    def names():
        return [device["name"] for device in a.get("/v1/devices")["devices"]]
    t.equal((names(), a.device("mlx5_0")["bps_max"]), (["mlx5_0"], 25e9), "what is found")
    t.equal(a.map(b, PORT, cp_port=1)["outcome"], "mapped", "by it")
    server, client = guest(b, ALICE, RAIL_B), guest(a, BOB, RAIL_A)
    c = Connection(a, b)
    said = mapped(t, a, b, c, server, client)
    link(t, client, c.near, said["link"], flags=local.CONNECTING)
    silent(t, client)
    a.post("/v1/drain", {"device": "mlx5_0"})
    ip("-n", a.ns, "link", "set", "lan", "down")
    t.until(lambda: names() == [], 20, "it to be gone")
    ip("-n", a.ns, "link", "set", "lan", "up")
    t.until(lambda: names() == ["mlx5_0"], 20, "it to be back")
    device = a.device("mlx5_0")
    t.equal((device["state"], device["sessions"]), ("draining", 1), "as it was left")
    # A further device appears, with a link of its own.
    tree.add(a, SOFT, "rxe1", "rn0")
    ip("-n", a.ns, "link", "add", "rn0", "type", "veth", "peer", "name", "far0")
    for name in ("rn0", "far0"):
        ip("-n", a.ns, "link", "set", name, "up")
    ip("-n", a.ns, "address", "add", "10.78.0.1/24", "dev", "rn0")
    t.until(lambda: names() == ["mlx5_0", "rxe1"], 20, "the other one to be there")
    t.check(a.device("rxe1")["soft"], "of software")
    # Its GID appears only some time after its address.
    tree.add(a, REAL, "mlx5_1", "rn0")
    ip("-n", a.ns, "address", "add", "10.78.0.2/24", "dev", "rn0")
    t.until(lambda: names() == ["mlx5_0", "mlx5_1"], 20, "the real one to have the addresses")
    client.close()
    t.until(lambda: a.device("mlx5_0")["sessions"] == 0, 10, "the session to be over")
    # What the configuration file says takes precedence.
    a.write_config(**asking(a))
    a.post("/v1/reload", {})
    t.equal(names(), ["rnic0"], "what is named")


if __name__ == "__main__":
    sys.exit(main())
