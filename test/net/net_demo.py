#!/usr/bin/python3
"""What make demo-cluster shows, each step of it verified: three hosts as network namespaces, each
with an rsockd, and etcd on one of them. A policy is pushed, a service is drained, a host is killed.
"""
import json
import os
import sys

from etcdlab import Etcd
from lib.harness import case, main
from net_cluster import file_with, rsock, runs
from net_members import LEASE_S, member, members, registered, seen
from netlab import Lab

CACHE, QUEUE = 6379, 5672  # the ports of two services


def policy(draining=False):
    """Two services between all hosts; one that is drained gets no new sessions."""
    rule = {"name": "all"}
    if draining:
        rule = {"name": "all-but-queue", "when": {"not": {"services": ["queue"]}}}
    return json.dumps({"services": [{"name": "cache", "ports": [str(CACHE)]},
                                    {"name": "queue", "ports": [str(QUEUE)]}],
                       "rules": [rule]}, indent=1) + "\n"


def show(t, host, *words):
    """Runs a command of the tool on the host, and shows both."""
    said = rsock(t, host, *words)
    shown = " ".join(os.path.basename(word) if os.path.isabs(word) else word for word in words)
    print(f"host{host.number}# rsock policy {shown}\n{said}", flush=True)
    return said


def explain(t, host, to, port, is_mapped=True):
    """Whether a new session from the host to that service is mapped; shows the answer."""
    said = rsock(t, host, "explain", to.ip, port, expect=0 if is_mapped else 1)
    answer = next(line for line in said.splitlines() if line.startswith("answer: "))
    print(f"host{host.number}# rsock policy explain {to.ip} {port}\n{answer}\n", flush=True)
    t.check(answer.startswith("answer: map" if is_mapped else "answer: do not map"), said)


def in_force(t, hosts, said):
    """Waits until each host runs the revision that push has said, and has told so."""
    revision = int(said.split()[1])
    for host in hosts:
        runs(t, host, revision)
    t.until(lambda: all(one["revision"] == revision for one in members(hosts[0]).values()), 10,
            f"all to tell that they run {revision}")


def step(text):
    print(f"---- {text}", flush=True)


@case(timeout=90)
def cluster(t):
    lab = Lab(t, 3)
    a, b, c = lab.hosts
    etcd = Etcd(c)
    for host in lab.hosts:
        host.start(**member(host, etcd.url))
    for host in lab.hosts:
        registered(t, host)
    step("three hosts have found each other by etcd; there is no policy yet")
    t.check("host3" in show(t, a, "members"), "three members")
    step("a policy is pushed on host1, and each host runs it")
    said = show(t, a, "push", file_with(t, policy()), "--note", "two services")
    in_force(t, lab.hosts, said)
    show(t, b, "members")
    for port in CACHE, QUEUE:
        explain(t, b, c, port)
    step("the service queue is drained: its new sessions stay on TCP, on every host")
    said = show(t, a, "push", file_with(t, policy(draining=True)), "--note", "queue is drained")
    in_force(t, lab.hosts, said)
    explain(t, b, c, CACHE)
    explain(t, b, c, QUEUE, is_mapped=False)
    show(t, c, "diff")
    step(f"host2 is killed: its entry goes with its lease, {LEASE_S} s at most behind it")
    t.kill(b.daemon)
    seen(t, a, "host1", "host3", seconds=2 * LEASE_S + 2)
    t.check("host2" not in show(t, c, "members"), "two members")
    step("the history of the policy")
    t.check("queue is drained" in show(t, c, "history"), "history")


if __name__ == "__main__":
    sys.exit(main())
