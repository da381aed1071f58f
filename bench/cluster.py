#!/usr/bin/env python3
"""Measures many rsockds that share one etcd of three nodes: as a rule 1,000, each a process.

What is measured, in this order:
  looks      what rsockd's periodic look at the services costs etcd, by their number
  rest       with some of the agents, then more, then all: requests, CPU, memory, writes of etcd
  push       a document: seconds until each agent has it in force, and what etcd writes for that
  decisions  requests for mappings at several agents: what etcd writes for them
  ledger     some agents use sessions of others' RNICs, by quotas: what etcd does for them
  services   some agents offer a service, which all others are told; memory of it
  return     all agents are stopped for longer than their leases, and go on at the same time
  leader     the node that leads is killed: requests a second, seconds until all agents are in sync

docs/scale.md has a result, and what follows from it for more hosts. As root, since all of it has a
network namespace of its own.
"""
import argparse
import json
import pathlib
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time

import cluster_lab as lab
import cluster_ledger
import stages
from cluster_report import tell
from lib.processes import Failure, until
from mapper_lab import BIN, run
from stages import BUILD, LIBRSOCK

REST_S = 30  # three of rsockd's looks at etcd
CHECK_S = 10
SAMPLE_S = 0.5
DECISIONS = 20000  # at each of so many agents
ASKED = 5
LOOKS, READS = 200, 20
ENTRY = json.dumps({  # as rsockd writes one
    "left-out": 0, "listens": [{"address": "10.77.0.1", "port": 3935}], "node": "host1",
    "services": [{"address": "10.77.0.1", "device": "rnic0", "name": "service", "port": 5201,
                  "rdma": "10.77.0.1", "rdma-port": 18000, "since": "2026-01-01T00:00:00Z"}]})


def document(note):
    return json.dumps({"services": [{"name": note, "ports": [str(lab.SERVICE)],
                                     "rdma-port": "18000", "pm-time": "254s"}],
                       "rules": [{"name": "everything"}]}) + "\n"


def percentiles(values):
    ordered = sorted(values)
    return {"median": statistics.median(ordered), "p99": ordered[int(len(ordered) * 0.99)],
            "last": ordered[-1]}


def between(before, after, seconds=None):
    """What the nodes did meanwhile, summed; a second, if the seconds are given. What each of them
    does (a write is executed by all) counts once.
    """
    def each(key):
        return [b[key] - a[key] for a, b in zip(before, after)]
    done = {key: sum(each(key)) for key in ("cpu_s", "requests", "sent_bytes", "disk_bytes")}
    done.update((key, max(each(key))) for key in ("proposals", "puts"))
    return {key: value / (seconds or 1) for key, value in done.items()}


class Sampler:
    """Requests a second at the nodes that live, one sample after the other, beside what is
    measured.
    """

    def __init__(self, nodes):
        self.nodes, self.rates, self.is_over = nodes, [], False
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def sample(self):
        try:
            return {node.number: lab.requests_of(node.figures()) for node in self.nodes.living()}
        except (OSError, Failure, lab.http.client.HTTPException):
            return {}

    def work(self):
        last, at = self.sample(), time.monotonic()
        while not self.is_over:
            time.sleep(SAMPLE_S)
            now, taken = time.monotonic(), self.sample()
            made = sum(taken[number] - last[number] for number in taken if number in last)
            self.rates.append(made / (now - at))
            last, at = taken, now

    def end(self):
        self.is_over = True
        self.thread.join()
        return {"mean": statistics.mean(self.rates), "most": max(self.rates)}


def rest(nodes, agents, seconds):
    before, cpu, busy = nodes.tally(), agents.cpu_s(), lab.machine_busy_s()
    began = time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    after = nodes.tally()
    figures = {"agents": len(agents.all), **between(before, after, took)}
    figures["agents_cpu_s"] = (agents.cpu_s() - cpu) / took
    figures["others_cpu_s"] = max(0, (lab.machine_busy_s() - busy) / took - figures["cpu_s"] -
                                  figures["agents_cpu_s"])
    figures["nodes"] = [{key: node[key] for key in ("resident_bytes", "watches", "descriptors",
                                                    "db_bytes")} for node in after]
    figures["requests_by_node"] = [(a["requests"] - b["requests"]) / took
                                   for b, a in zip(before, after)]
    figures.update(memory(agents))
    agents.check()
    return figures


def memory(agents):
    return {"agent_resident_bytes": statistics.median(a.resident_bytes() for a in agents.all),
            "agent_private_bytes": statistics.median(a.private_bytes() for a in agents.all),
            "agent_descriptors": agents.all[-1].descriptors()}


def push(nodes, agents, text):
    """The document is pushed until etcd takes it."""
    before, began = nodes.tally(), time.monotonic()
    revision = until(lambda: agents.push(text), 60, "a push to succeed")
    accepted = time.monotonic() - began
    took = agents.took(revision, began, 60)
    until(lambda: all_run(agents, revision), 120, "all members to say that they run it")
    told = time.monotonic() - began
    return {"accepted_s": accepted, "in_force_s": percentiles(took), "told_s": told,
            **between(before, nodes.tally())}


def all_run(agents, revision):
    """What `rsock policy members` shows; etcd may be too busy to say it."""
    status, text = agents.all[0].ask("GET", "/v1/policy/members")
    return status == 200 and all(one["revision"] == revision for one in json.loads(text)["members"])


def list_members(agents):
    time.sleep(CHECK_S)  # until the push is over

    def listed():
        began = time.monotonic()
        status, text = agents.all[0].ask("GET", "/v1/policy/members")
        return status == 200 and {"s": time.monotonic() - began, "bytes": len(text),
                                  "members": len(json.loads(text)["members"])}
    return until(listed, 60, "the list of members")


def decisions(nodes, agents, seconds, at_rest):
    before, began, accepts = nodes.tally(), time.monotonic(), 0
    while accepts == 0 or time.monotonic() - began < seconds:
        for agent in agents.all[agents.owners:agents.owners + ASKED]:
            done = run(BIN / "pmload", "--requests", DECISIONS, "--of", 100000, agent.address,
                       lab.PM_PORT, lab.SERVICE)
            accepts += done["accepts"]
    took = time.monotonic() - began
    done = between(before, nodes.tally())
    return {"accepts": accepts, "per_s": accepts / took,
            **{f"{key}_per_1000": (done[key] - at_rest[key] * took) / accepts * 1000
               for key in ("puts", "proposals", "disk_bytes")}}


def serve(agents, number):
    """A program on each of so many agents that offers the service."""
    env = stages.environment(lambda name: name.startswith("RSOCK_"), LIBRSOCK, "/dev/null")
    return [lab.Process([BIN / "rsperf", "server", "--host", agent.address, "--port", lab.SERVICE],
                        env={**env, "RSOCK_DAEMON": agent.local}, stdout=lab.subprocess.DEVNULL)
            for agent in agents.all[:number]]


def services(nodes, agents, number, at_rest):
    """From the start of the first program until all agents know all services, and back."""
    def heard():
        return sum(agent.figure("services_events_total") for agent in agents.all)

    def known(wanted):
        return lambda agent: agent.state()["services"]["known"] == wanted
    events, memory_before = heard(), memory(agents)
    before, cpu, began = nodes.tally(), agents.cpu_s(), time.monotonic()
    programs = serve(agents, number)
    when = agents.await_each(known(number), 300, f"knowing {number} services")
    figures = {"offered": number, "known_s": max(when) - began}
    took = time.monotonic() - began
    done = between(before, nodes.tally())
    figures["events"] = heard() - events
    figures["puts"] = done["puts"]
    # What watches and looks cost anyway is not theirs. Asking each agent is in their own time.
    for key, value in (("cpu_s", done["cpu_s"]), ("sent_bytes", done["sent_bytes"])):
        figures[f"etcd_{key}"] = value - at_rest[key] * took
    figures["agents_cpu_s"] = agents.cpu_s() - cpu - at_rest["agents_cpu_s"] * took
    figures["memory_before"], figures["memory"] = memory_before, memory(agents)
    figures["nodes"] = [node["resident_bytes"] for node in nodes.tally()]
    for program in programs:
        program.end()
    agents.await_each(known(0), 300, "without services again")
    return figures


def looks(nodes, counts):
    """What the looks beside a watch cost etcd, and reading it all, by the number of entries, which
    are keys of a prefix that no agent reads.
    """
    node, made, out = nodes.all[0], 0, []
    head = f"{lab.PREFIX}/looks/"
    ends = {"key": lab.b64(head), "range_end": lab.b64(head[:-1] + "0")}
    for count in counts:
        while made < count:
            upto = min(count, made + 100)
            node.do("kv/txn", success=[
                {"request_put": {"key": lab.b64(f"{head}host{number}"), "value": lab.b64(ENTRY)}}
                for number in range(made, upto)])
            made = upto
        cpu = nodes_cpu_s(nodes)
        for _ in range(LOOKS):
            node.do("kv/range", **ends, sort_order="DESCEND", sort_target="MOD", keys_only=True,
                    limit="1")
        look, cpu = nodes_cpu_s(nodes) - cpu, nodes_cpu_s(nodes)
        for _ in range(READS):
            size = len(node.ask("POST", "/v3/kv/range", ends))
        out.append({"keys": count, "cpu_us": look / LOOKS * 1e6, "read_bytes": size,
                    "read_cpu_us": (nodes_cpu_s(nodes) - cpu) / READS * 1e6})
    node.do("kv/deleterange", **ends)
    return out


def nodes_cpu_s(nodes):
    return sum(node.cpu_s() for node in nodes.living())


def whole_return(nodes, agents):
    """All agents stop for longer than a lease, as where the power or the network was gone."""
    for agent in agents.all:
        agent.signal(signal.SIGSTOP)
    until(lambda: nodes.members() == 0, 4 * lab.LEASE_S + 30, "all leases to end")
    sampler, before, began = Sampler(nodes), nodes.tally(), time.monotonic()
    for agent in agents.all:
        agent.signal(signal.SIGCONT)
    until(lambda: nodes.members() == len(agents.all), 300, "all to be members again")
    figures = {"members_s": time.monotonic() - began}
    agents.await_each(is_whole, 300, "in sync again")
    return {**figures, "whole_s": time.monotonic() - began, **between(before, nodes.tally()),
            "requests_per_s": sampler.end()}


def is_whole(agent):
    state = agent.state()
    return state["reached"] and state["member"]["registered"] and state["services"]["in-sync"]


def kill_leader(nodes, agents):
    lapses = sum(agent.figure("member_lapses_total") for agent in agents.all)
    leader = nodes.leader()
    sampler, began = Sampler(nodes), time.monotonic()
    leader.end()
    watched = Watch(agents)
    figures = {"push": push(nodes, agents, document("after"))}
    when = agents.await_each(is_whole, 300, "in sync again")
    figures["whole_s"] = max(when) - began
    time.sleep(2 * CHECK_S)  # the next looks
    figures["lapses"] = sum(agent.figure("member_lapses_total") for agent in agents.all) - lapses
    figures["requests_per_s"] = sampler.end()
    figures["least_members"] = watched.end()
    return figures


class Watch:
    """The lowest number of members that was seen meanwhile."""

    def __init__(self, agents):
        self.nodes, self.least, self.is_over = agents.nodes, len(agents.all), False
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        while not self.is_over:
            self.least = min(self.least, self.nodes.members())
            time.sleep(SAMPLE_S)

    def end(self):
        self.is_over = True
        self.thread.join()
        return self.least


def measure(args, folder, figures):
    nodes = agents = None
    figures.update(agents=args.agents, spread=args.spread, rest={}, start={})

    def say(text):
        print(text, file=sys.stderr)
    try:
        nodes = lab.Nodes(folder)
        say("looks")
        figures["looks"] = looks(nodes, args.looks)
        agents = lab.Agents(folder, nodes, {**({} if args.spread else {"order": "listed"}),
                                            **({"ledger": {}} if args.owners else {})},
                            args.owners, args.sessions)
        for count in sorted({n for n in args.steps if n < args.agents} | {args.agents}):
            say(f"{count} agents")
            before = nodes.tally()
            took = agents.start(count, args.at_once)
            began = time.monotonic()
            agents.await_each(is_whole, 300, "in sync")
            figures["start"][count] = {"members_s": took,
                                       "whole_s": took + time.monotonic() - began,
                                       **between(before, nodes.tally())}
            time.sleep(CHECK_S)
            figures["rest"][count] = rest(nodes, agents, args.rest)
        at_rest = figures["rest"][args.agents]
        say("push")
        figures["push"] = [push(nodes, agents, document(f"push{number}"))
                           for number in range(args.pushes)]
        figures["list"] = list_members(agents)
        say("decisions")
        figures["decisions"] = decisions(nodes, agents, args.rest / 3, at_rest)
        if args.owners:
            say("ledger")
            push(nodes, agents, cluster_ledger.document())
            time.sleep(CHECK_S)
            figures["ledger"] = cluster_ledger.measure(nodes, agents, args, at_rest, between)
            push(nodes, agents, document("again"))
        say("services")
        figures["services"] = [services(nodes, agents, number, at_rest)
                               for number in sorted({max(1, args.services // 10), args.services})]
        say("all return")
        figures["return"] = whole_return(nodes, agents)
        say("the leader is killed")
        figures["leader"] = kill_leader(nodes, agents)
    finally:
        if agents:
            agents.end()
        for node in nodes.all if nodes else ():
            node.end()


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--agents", type=int, default=1000)
    p.add_argument("--steps", type=int, nargs="*", default=[100, 300],
                   help="measured at rest with so many first")
    p.add_argument("--services", type=int, default=20, help="agents that offer one")
    p.add_argument("--owners", type=int, default=20,
                   help="agents whose RNIC has a limit, which the ledger is about; 0: no ledger")
    p.add_argument("--sessions", type=int, default=1000, help="limit of such an RNIC")
    p.add_argument("--holders", type=int, default=50, help="agents that use these RNICs")
    p.add_argument("--each", type=int, default=2, help="RNICs that each of these uses")
    p.add_argument("--rate", type=float, default=200, help="sessions a second that they begin")
    p.add_argument("--looks", type=int, nargs="*", default=[10, 100, 1000, 10000],
                   help="entries of services at which etcd is looked at, without any agent")
    p.add_argument("--pushes", type=int, default=5)
    p.add_argument("--rest", type=float, default=REST_S, help="seconds of each look at rest")
    p.add_argument("--at-once", type=int, default=16, help="agents that start at the same time")
    p.add_argument("--listed", dest="spread", action="store_false",
                   help="all agents ask the same node of etcd first (order: listed)")
    p.add_argument("--json", type=pathlib.Path, default=BUILD / "bench" / "cluster.json")
    args = p.parse_args()
    stages.end_on_signals()
    lab.allow_descriptors(6 * args.agents + 1000)
    lab.enter_network(args.agents)
    folder = tempfile.mkdtemp(prefix="rsock-cluster-")
    figures = {"machine": stages.machine()}
    try:
        measure(args, folder, figures)
    finally:
        shutil.rmtree(folder)
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(figures, indent=1))
        tell(figures)  # as far as it came
    print(f"\nall figures in {args.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
