#!/usr/bin/python3
"""Two processes of one host that are in separate memory: rsockd maps their connection as if the
other end were on another host; it asks itself for the mapping, and answers.
"""
import os
import signal
import sys

import local
import pm
from lib.harness import case, main
from net_local import ALICE, BOB, PORT
from net_rdma import RAIL_A, RAIL_B, Connection, answer, at, guest, held, link, silent
from net_rsockd import asking
from netlab import Lab

# does not share memory: the accepting process, the connecting one
WHO = ((True, True), (True, False), (False, True))


def alone(t, **more):
    host = Lab(t, 1).hosts[0]
    host.start(**{**asking(host), **more})
    return host


def look_up(client, sock, connecting, apart):
    client.look_up(sock, connecting,
                flags=(local.CONNECTING if connecting else 0) | (local.NO_SHM if apart else 0))


def is_mapped(t, host, c, server, client):
    """Checks the answer to the connecting end, and that both ends are admitted."""
    reason, said = answer(t, client, "the connecting end")
    t.equal((reason, said["port"], said["ip"], said["from_ip"]),
            ("mapped", RAIL_B, pm.packed(host.ip), pm.packed(host.ip)),
            "the answer")
    t.check(held(host, 2, 2), "promised for both ends")
    link(t, server, c.far, said["link"], **at(host, RAIL_B, from_ip=pm.packed(host.ip)))
    t.equal(answer(t, server, "LINK")[0], "mapped", "let in")
    link(t, client, c.near, said["link"], flags=local.CONNECTING, from_ip=pm.packed(host.ip))
    silent(t, client)
    t.check(held(host, 2), "in use at both ends")
    for end in (server, client):
        end.say(local.UNLINK, link=said["link"])
        silent(t, end)
    t.check(held(host, 0), "given back")


@case(timeout=60)
def who_accepts_comes_first(t):
    host = alone(t)
    for i, (of_server, of_client) in enumerate(WHO):
        c = Connection(host, host, connecting=ALICE, port=PORT + i)
        server, client = guest(host, ALICE, RAIL_B), guest(host, ALICE, RAIL_A)
        look_up(server, c.far, False, of_server)
        if of_server:
            t.equal(answer(t, server, "LOOKUP")[0], "remote", "the accepting end")
        look_up(client, c.near, True, of_client)
        if not of_server:
            t.equal(answer(t, server, "LOOKUP")[0], "remote",
                    "the accepting end, which had waited to meet somebody")
        is_mapped(t, host, c, server, client)


@case(timeout=60)
def who_connects_comes_first(t):
    host = alone(t)
    for i, (of_server, of_client) in enumerate(WHO):
        c = Connection(host, host, connecting=ALICE, port=PORT + i)
        server, client = guest(host, ALICE, RAIL_B), guest(host, ALICE, RAIL_A)
        server.say(local.LISTEN, **c.listening())
        silent(t, server)
        waited = host.figure("policy_waited_total")
        look_up(client, c.near, True, of_client)
        if of_client:
            t.until(lambda waited=waited: host.figure("policy_waited_total") > waited, 10,
                    "the PMReq to wait")
        else:
            silent(t, client)
        look_up(server, c.far, False, of_server)
        t.equal(answer(t, server, "LOOKUP")[0], "remote", "the accepting end")
        is_mapped(t, host, c, server, client)


@case(timeout=60)
def who_accepts_comes_while_it_is_asked(t):
    """The connecting end's question is under way to this host's own agent."""
    host = alone(t)
    c = Connection(host, host, connecting=ALICE, port=PORT)
    server, client = guest(host, ALICE, RAIL_B), guest(host, ALICE, RAIL_A)
    os.kill(host.daemon.popen.pid, signal.SIGSTOP)
    look_up(client, c.near, True, True)
    look_up(server, c.far, False, False)
    os.kill(host.daemon.popen.pid, signal.SIGCONT)
    t.equal(answer(t, server, "LOOKUP")[0], "remote", "the accepting end")
    is_mapped(t, host, c, server, client)


@case(timeout=60)
def a_port_that_comes_with_the_answer(t):
    """A process that waited for a local rendezvous makes its port for rails only when it learns
    that a peer will come.
    """
    host = alone(t)
    c = Connection(host, host, connecting=ALICE)
    server, client = guest(host, ALICE, 0, able=True), guest(host, ALICE, 0, able=True)
    look_up(server, c.far, False, False)
    look_up(client, c.near, True, True)
    t.equal(answer(t, server, "LOOKUP")[0], "remote", "the accepting end")
    server.say(local.RDMA, port=RAIL_B)
    is_mapped(t, host, c, server, client)


@case(timeout=60)
def one_process(t):
    host = alone(t)
    c = Connection(host, host, connecting=ALICE)
    both = guest(host, ALICE, RAIL_B)
    look_up(both, c.far, False, True)
    t.equal(answer(t, both, "LOOKUP")[0], "remote", "the accepting end")
    look_up(both, c.near, True, True)
    reason, said = answer(t, both, "LOOKUP")
    t.equal((reason, said["port"], said["link"]), ("same-process", 0, 0), "needs no RDMA to itself")
    t.check(held(host, 1, 1), "the accepting end's mapping is over by itself")


@case(timeout=60)
def of_two_users(t):
    """Two users that may not share memory may use rails, if the rules allow it."""
    host = alone(t)
    c = Connection(host, host)
    server, client = guest(host, ALICE, RAIL_B), guest(host, BOB, RAIL_A)
    look_up(server, c.far, False, True)
    t.equal(answer(t, server, "LOOKUP")[0], "remote", "the accepting end")
    look_up(client, c.near, True, True)
    is_mapped(t, host, c, server, client)


@case(timeout=60)
def nobody_is_apart(t):
    """Processes that share memory are brought together as usual."""
    host = alone(t, vouch=[{"users": [str(ALICE), str(BOB)]}])
    c = Connection(host, host)
    server, client = guest(host, ALICE, RAIL_B), guest(host, BOB, RAIL_A)
    look_up(server, c.far, False, False)
    look_up(client, c.near, True, False)
    for end in (server, client):
        message, fds = end.hear()
        t.equal((message["type"], len(fds)), (local.RENDEZVOUS, 1), "introduced")
    t.equal(host.counts("client")["mapped"], 0, "mappings")


if __name__ == "__main__":
    sys.exit(main())
