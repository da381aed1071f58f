"""Measures the ledger of remote ports: some agents of a cluster use sessions of others' RNICs, by
quotas that they hold. Part of cluster.py.
"""
import json
import threading
import time

import cluster_lab as lab

PORT = 6000
SERVICE = {"name": "shared", "ports": [f"{PORT}-{PORT + 9999}"], "rdma-port": "18000",
           "pm-time": "3s"}
WORKERS = 8
SETTLE_S = 20  # a quota is held for 10 s after the last session began
COUNTS = ("covered", "asked", "spared", "taken", "given", "beaten")


def document():
    return json.dumps({"services": [SERVICE], "rules": [{"name": "everything"}]}) + "\n"


class Users:
    """Agents that begin sessions, so many a second in all, each at so many (@each) of the owners'
    RNICs. A session that nobody uses ends after the service's PmTime.
    """

    def __init__(self, holders, owners, rate, each):
        self.pause_s = WORKERS / rate
        self.pairs = [(holder, owners[(i * each + k) % len(owners)])
                      for k in range(each) for i, holder in enumerate(holders)]
        self.outcomes, self.trouble, self.is_over = [{} for _ in range(WORKERS)], None, False
        self.threads = [threading.Thread(target=self.work, args=[number], daemon=True)
                        for number in range(WORKERS)]
        for thread in self.threads:
            thread.start()

    def work(self, first):
        told, number, began = self.outcomes[first], first, time.monotonic()
        try:
            while not self.is_over:
                holder, owner = self.pairs[number % len(self.pairs)]
                status, text = holder.ask("POST", "/v1/map", {
                    "ip": owner.address, "port": PORT + number % 10000})
                what = json.loads(text)["outcome"] if status == 200 else str(status)
                told[what] = told.get(what, 0) + 1
                number += WORKERS
                time.sleep(max(0, began + (number // WORKERS) * self.pause_s - time.monotonic()))
        except Exception as error:  # nothing would be measured, and nobody would know
            self.trouble = error

    def end(self):
        """Returns how often each outcome was told."""
        self.is_over = True
        for thread in self.threads:
            thread.join()
        if self.trouble:
            raise self.trouble
        return {what: sum(told.get(what, 0) for told in self.outcomes)
                for what in set().union(*self.outcomes)}


def counts(agents):
    return {name: sum(agent.figure(f"ledger_{name}_total") for agent in agents) for name in COUNTS}


def offers_of(owners):
    return sum(agent.figure("ledger_offers_total") for agent in owners)


def heard(agents):
    """Changes of offers that all agents were told; of quotas only an RNIC's owner is."""
    return sum(agent.figure("ledger_offers_events_total") for agent in agents)


def granted(nodes, limit):
    """Sessions that quotas hold, and how many quotas there are. Raises Failure if more is granted
    of an RNIC than it has."""
    head = f"{lab.PREFIX}/ledger/quota/"

    def read():
        """While it is very busy etcd may elect another leader instead of answering."""
        try:
            return [nodes.living()[0].do("kv/range", key=lab.b64(head),
                                         range_end=lab.b64(head[:-1] + "0")).get("kvs", [])]
        except (OSError, lab.Failure, lab.http.client.HTTPException):
            return None
    found, held = lab.until(read, 60, "etcd to say what is granted")[0], {}
    for one in found:
        rnic = lab.base64.b64decode(one["key"]).decode()[len(head):].rsplit("/", 1)[0]
        sessions = json.loads(lab.base64.b64decode(one["value"]))["sessions"]
        held[rnic] = held.get(rnic, 0) + sessions
    most = max(held.values(), default=0)
    if most > limit:
        raise lab.Failure(f"{most} sessions of an RNIC are granted, it has {limit}")
    return {"quotas": len(found), "sessions": sum(held.values()), "most": most}


def measure(nodes, agents, args, at_rest, between):
    owners, users = agents.all[:agents.owners], agents.all[-args.holders:]
    told, events, offers = counts(users), heard(agents.all), offers_of(owners)
    before, cpu, began = nodes.tally(), agents.cpu_s(), time.monotonic()
    work = Users(users, owners, args.rate, args.each)
    time.sleep(args.rest)
    held = granted(nodes, agents.sessions)
    outcomes = work.end()
    took = time.monotonic() - began
    done, cpu = between(before, nodes.tally()), agents.cpu_s() - cpu
    now = counts(users)
    figures = {"holders": len(users), "owners": len(owners), "each": args.each,
               "outcomes": outcomes,
               "per_s": outcomes.get("mapped", 0) / took, "held": held,
               **{name: now[name] - told[name] for name in COUNTS}}
    mapped = max(1, outcomes.get("mapped", 0))
    for key in ("puts", "proposals", "requests", "cpu_s", "disk_bytes"):
        figures[f"{key}_per_1000"] = (done[key] - at_rest[key] * took) / mapped * 1000
    figures["offers"] = offers_of(owners) - offers
    figures["events"] = heard(agents.all) - events
    figures["agents_cpu_s_per_1000"] = (cpu - at_rest["agents_cpu_s"] * took) / mapped * 1000
    lab.until(lambda: not granted(nodes, agents.sessions)["quotas"], 4 * SETTLE_S,
              "all quotas to be given back")
    figures["given_back_s"] = time.monotonic() - began - took
    return figures
