#!/usr/bin/python3
"""Decisions of the policy agent between hosts: limits, devices that come and go, addresses over
several, a central PMSP.
"""
import json
import os
import re
import signal
import sys

import pm
from lib.harness import case, main
from net_rsockd import EVERYTHING, FIXED, SERVICE, asking, released, serving
from netlab import HERE, Lab, ip


def ap_with(lab, number, rnics, **more):
    """A host with these RNICs, each with an address of its own, by name."""
    host = lab.hosts[number]
    for address in rnics.values():
        host.add_address(address)
    return host.start(**{**serving(host), "rnics": [
        {"name": name, "addresses": [address], "sessions": 10} for name, address in rnics.items()],
                         **more})


@case(timeout=60)
def never_more_than_there_is(t):
    a, b = Lab(t, 2).hosts
    b.start(**serving(b, rnics=[{"name": "rnic0", "addresses": [b.ip], "sessions": 5}]))
    client = pm.Client(a, b.ip)
    answers = []
    for number in range(1, 21):
        client.send(pm.REQ, b.ip, SERVICE, number, client.handle())
    for _ in range(20):
        answers.append(client.hear())
    accepts = [answer for answer in answers if answer["op"] == pm.ACCEPT]
    t.equal(len({answer["cp_port"] for answer in accepts}), 5,
            "connections that were promised the last of it")
    t.equal(b.device("rnic0")["promised"], 5, "the ledger")
    released(t, b)
    late = client.handle()
    client.send(pm.REQ, b.ip, SERVICE, 99, late)
    t.until(lambda: (client.hear() or {}).get("handle") == late, 20,
            "an answer behind the repeated ones")
    t.equal(b.device("rnic0")["promised"], 1, "and then there is room again")


@case(timeout=60)
def a_device_is_drained(t):
    lab = Lab(t, 2)
    a = lab.hosts[0].start(**asking(lab.hosts[0]))
    b = ap_with(lab, 1, {"r0": "10.77.1.1", "r1": "10.77.1.2"},
                aggregates=[{"address": lab.hosts[1].ip, "over": ["r0", "r1"], "choose": "order"}])
    t.equal(a.map(b, SERVICE, cp_port=1)["rdma"]["ip"], "10.77.1.1", "the first")
    t.equal(b.post("/v1/drain", {"device": "r0"})["state"], "draining", "drain")
    t.equal(a.map(b, SERVICE, cp_port=2)["rdma"]["ip"], "10.77.1.2", "moved by a changed address")
    b.post("/v1/drain", {"device": "r1"})
    t.equal(a.map(b, SERVICE, cp_port=3)["outcome"], "refused", "none is left")
    b.post("/v1/drain", {"device": "r0", "on": False})
    t.equal(a.map(b, SERVICE, cp_port=4)["rdma"]["ip"], "10.77.1.1", "in use again")


@case(timeout=60)
def the_cp_s_device_is_drained(t):
    """The remembered answer was given for a link from the drained device: it is asked for anew, but
    not for a link from the other one.
    """
    a, b = Lab(t, 2).hosts
    for address in ("10.77.1.1", "10.77.1.2"):
        a.add_address(address)
    a.start(**asking(a, rnics=[{"name": "r0", "addresses": ["10.77.1.1"]},
                               {"name": "r1", "addresses": ["10.77.1.2"], "order": 1}]))
    b.start(**serving(b, services=[{"name": "iperf", "ports": [str(SERVICE)], "pm-time": "60s"}]))
    for device, requests in (("r0", 1), ("r0", 1), ("r1", 2), ("r1", 2)):
        a.post("/v1/drain", {"device": "r0", "on": device == "r1"})
        answer = a.map(b, SERVICE)
        t.equal((answer["outcome"], answer["device"]), ("mapped", device), answer)
        t.equal(b.asked(), requests, "PMReq")


@case(timeout=60)
def what_a_cached_answer_leads_to(t):
    """The other host's devices are in the CP's own configuration: a cached mapping holds as long as
    its policy agent takes the device that it leads to, and as long as the service is over it.
    """
    lab = Lab(t, 2)
    a, far = lab.hosts[0], {"b0": "10.77.1.1", "b1": "10.77.1.2"}
    b = ap_with(lab, 1, far,
                aggregates=[{"address": lab.hosts[1].ip, "over": ["b0", "b1"], "choose": "order"}],
                services=[{"name": "iperf", "ports": [str(SERVICE)], "pm-time": "lasting"}])

    def configuration(*over):
        known = [{"name": name, "node": "host2", "addresses": [ip_]} for name, ip_ in far.items()]
        return {**asking(a), "rnics": [*asking(a)["rnics"], *known],
                "aggregates": [{"address": b.ip, "over": list(over)}]}

    def mapped(to, requests, outdated, what):
        answer = a.map(b, SERVICE)
        t.equal((answer["outcome"], answer.get("rdma", {}).get("ip")), ("mapped", far[to]), what)
        t.equal((b.asked(), a.counts("client")["outdated"]), (requests, outdated),
                f"PMReq, and cached mappings that did not hold: {what}")
    a.start(**configuration("b0", "b1"))
    mapped("b0", 1, 0, "the first")
    mapped("b0", 1, 0, "cached")
    b.post("/v1/drain", {"device": "b0"})
    mapped("b0", 1, 0, "the CP's side does not know it")
    a.post("/v1/drain", {"device": "b0"})
    mapped("b1", 2, 1, "the CP's policy agent has it drained")
    mapped("b1", 2, 1, "cached, too")
    a.post("/v1/drain", {"device": "b0", "on": False})
    mapped("b1", 2, 1, "it leads to the other one")
    b.post("/v1/drain", {"device": "b0", "on": False})
    a.write_config(**configuration("b0"))
    a.post("/v1/reload", {})
    mapped("b0", 3, 2, "the service is not over the other one any more")
    mapped("b0", 3, 2, "and that is cached")


@case(timeout=120)
def the_node_s_load_counts(t):
    """One rule holds while the node is less busy than it is, and another one always."""
    (a,) = Lab(t, 1).hosts
    busy = t.spawn(["sh", "-c", "while :; do :; done"], preload=False)
    t.until(lambda: float(open("/proc/loadavg").read().split()[0]) > 0.05, 60, "some load")
    question = {"side": "ap", "ip": a.ip, "port": SERVICE, "from": a.ip}
    a.start(**serving(a, rules=[{"name": "idle", "when": {"load-below": "0.0001"}}]))
    t.equal(a.post("/v1/explain", question)["verdict"], "overload", "a rule for an idle node")
    a.write_config(**serving(a, rules=[{"name": "any", "when": {"load-below": "1000"}}]))
    a.post("/v1/reload", {})
    t.equal(a.post("/v1/explain", question)["verdict"], "map", "a rule for any")
    t.kill(busy)


@case(timeout=60)
def a_reload_changes_what_is_decided(t):
    a, b = Lab(t, 2).hosts
    a.start(**asking(a))
    b.start(**serving(b))
    t.equal(a.map(b, SERVICE, cp_port=1)["outcome"], "mapped", "before")
    promised = b.device("rnic0")["promised"]
    b.write_config(**serving(b, rules=[{"name": "few", "when": {"ports": ["6000"]}}]))
    b.post("/v1/reload", {})
    t.equal(b.device("rnic0")["promised"], promised, "what was promised stays so")
    t.equal(a.map(b, SERVICE, cp_port=2)["outcome"], "refused", "after")
    with open(t.path("rsockd2.conf"), "w") as file:
        file.write("rules: 5\n")
    t.check(b.post("/v1/reload", {}, status=409)["error"], "what is wrong with it")
    b.daemon.popen.send_signal(signal.SIGHUP)
    t.until(lambda: b.daemon.err(), 10, "a complaint about it")
    t.equal(a.map(b, 6000, cp_port=3)["outcome"], "mapped", "the last good one holds")
    # User names are looked up again, with the rights that are left.
    b.write_config(**serving(b, rules=[{"name": "roots", "side": "ap",
                                        "when": {"users": ["root", "nobody"]}}]))
    b.post("/v1/reload", {})
    for user, verdict in ((0, "map"), (1, "no-rule"), (2**32 - 2, "no-rule")):
        t.equal(b.post("/v1/explain", {"side": "ap", "ip": b.ip, "port": 6000, "from": a.ip,
                                       "user": user})["verdict"],
                verdict, f"user {user}")
    t.check(b.post("/v1/explain", {"side": "ap", "ip": b.ip, "port": 6000, "from": a.ip,
                                   "user": 2**32}, status=400)["error"], "no user id")


@case(timeout=60)
def one_daemon_for_many_hosts(t):
    lab = Lab(t, 3)
    a, b, central = lab.hosts
    b.add_address("10.77.1.1")
    a.start(**asking(a, client={"central": f"{central.ip}:3935"}))
    central.start(node="central",
                  rnics=[{"name": "b0", "node": "host2", "addresses": ["10.77.1.1"]}],
                  aggregates=[{"address": b.ip, "over": ["b0"]}],
                  services=[{"name": "iperf", "ports": [str(SERVICE)], "rdma-port": str(FIXED),
                             "pm-time": "3s"}],
                  rules=EVERYTHING)
    answer = a.map(b, SERVICE)
    t.equal((answer["outcome"], answer["rdma"]), ("mapped", {"ip": "10.77.1.1", "port": FIXED}),
            answer)
    t.equal(answer["asked"]["ip"], central.ip, "who was asked")


@case(timeout=60)
def as_many_devices_as_there_are(t):
    (a,) = Lab(t, 1).hosts
    names = [f"rnic{number}" for number in range(700)]
    a.start(**serving(a, rnics=[{"name": name,
                                 "addresses": [f"10.78.{number // 250}.{number % 250 + 1}"]}
                                for number, name in enumerate(names)]))
    t.equal([device["name"] for device in a.get("/v1/devices")["devices"]], names, "devices")
    t.equal(a.get("/metrics").count("\nrsockd_device_up{"), 700, "lines of devices")


@case(timeout=60)
def another_host_answers(t):
    """The daemon that is asked redirects; the answer comes from the other host, and so does
    everything after it.
    """
    lab = Lab(t, 3)
    a, b, central = lab.hosts
    a.start(**asking(a, client={"central": f"{central.ip}:3935", "silent-time": "0s"}))
    b.start(**serving(b, **{"redirects-from": [f"{central.ip}/32"]}))
    central.start(services=[{"name": "iperf", "ports": [str(SERVICE)]}],
                  rules=[{"name": "there", "side": "ap", "map": {"redirect": b.ip}}])
    answer = a.map(b, SERVICE)
    t.equal((answer["outcome"], answer["rdma"]), ("mapped", {"ip": b.ip, "port": FIXED}), answer)
    t.equal(answer["asked"]["ip"], central.ip, "who was asked")
    t.until(lambda: b.counts()["acks"] == 1, 10, "the PMAck to reach who answered")
    t.equal(central.counts()["accepts"], 0, "PMAccept of the one that was asked")
    t.equal(central.get("/v1/status")["open"], 0, "what it holds")
    # An envelope from any other host is not believed: host 1 wraps a request of its own.
    envelope = b"RSKR" + bytes([4, 1]) + (4000).to_bytes(2, "big") + pm.packed(central.ip)
    client = pm.Client(a, b.ip)
    before = b.counts()
    client.socket.sendto(envelope + pm.message(pm.REQ, b.ip, SERVICE, a.ip, 7, client.handle()),
                         client.to)
    t.until(lambda: b.counts()["malformed"] == before["malformed"] + 1, 10,
            "the envelope to be refused")
    t.equal(b.counts()["requests"], before["requests"], "requests")
    # Two daemons that redirect to each other: it ends.
    b.write_config(**serving(b, **{"redirects-from": ["10.77.0.0/24"], "rules": [
        {"name": "back", "side": "ap", "map": {"redirect": central.ip}}]}))
    b.post("/v1/reload", {})
    central.write_config(**{**central.config, "redirects-from": ["10.77.0.0/24"]})
    central.post("/v1/reload", {})
    t.equal(a.map(b, SERVICE, cp_port=5)["outcome"], "no-answer", "a circle")
    dropped = [int(re.search(r"redirects_dropped_total (\d+)", host.get("/metrics")).group(1))
               for host in (b, central)]
    t.check(sum(dropped) > 0, "requests that went round were dropped")


@case(timeout=60)
def the_tool(t):
    lab = Lab(t, 2)
    a = lab.hosts[0].start(**asking(lab.hosts[0]))
    b = ap_with(lab, 1, {"r0": "10.77.1.1"},
                aggregates=[{"address": lab.hosts[1].ip, "over": ["r0"]}])

    def rsock(host, *words, expect=0):
        proc = host.run([t.tool, *words[:1],
                         *(["--socket", host.control] if words[1] != "check" else []), *words[1:]])
        t.wait(proc, expect=expect)
        return proc.out() + proc.err()

    t.check("mapped: 10.77.1.1 port 18000" in rsock(a, "map", b.ip, str(SERVICE)), "map")
    answer = json.loads(rsock(a, "map", "--json", b.ip, str(SERVICE)))
    t.equal((answer["outcome"], answer["rdma"]["ip"]), ("mapped", "10.77.1.1"), answer)
    t.check("refused by 10.77.0.2" in rsock(a, "map", b.ip, "9", expect=1),
            "a service that is not mapped")
    t.check("10.77.0.77" in rsock(a, "map", "10.77.0.77", "9", expect=1), "nobody there")
    t.check("verdict: map\naddress: 10.77.1.1 port 18000\n" in
            rsock(b, "policy", "explain", "--side", "ap", b.ip, str(SERVICE)),
            "explain")
    t.check("verdict: no-rule" in rsock(b, "policy", "explain", "--side", "ap", b.ip, "9",
                                        expect=1), "explain: no")
    t.check("r0" in rsock(b, "policy", "show") and "up" in rsock(b, "policy", "show"), "show")
    t.equal(rsock(b, "drain", "r0"), "r0 is draining\n", "drain")
    t.check("draining" in rsock(b, "policy", "show"), "show")
    t.equal(rsock(b, "drain", "--undo", "r0"), "r0 is up\n", "drain --undo")
    t.check("no such device" in rsock(b, "drain", "none", expect=1), "drain of nothing")
    t.check("promises stay valid" in rsock(b, "policy", "reload"), "reload")
    t.check("is valid" in rsock(b, "policy", "check", t.path("rsockd2.conf")), "check")
    with open(t.path("wrong.conf"), "w") as file:
        file.write("nonsense: 1\n")
    t.check("nonsense" in rsock(b, "policy", "check", t.path("wrong.conf"), expect=1),
            "check of a wrong one")
    t.stop(b.daemon)
    t.check("cannot be reached" in rsock(b, "policy", "show", expect=3), "no daemon")
    for wrong in (["map", b.ip], ["policy", "nothing"], ["drain"]):
        t.run([t.tool, *wrong], preload=False, expect=2)


@case(timeout=60)
def as_the_readme_says(t):
    """The example of the README, with its addresses, on two hosts."""
    with open(os.path.join(HERE, "..", "..", "README.md")) as file:
        text = re.search(r"^cat > rsockd.conf <<'END'\n(.*?)^END$", file.read(),
                         re.M | re.S).group(1)
    a, b = Lab(t, 2).hosts
    a.add_address("10.0.0.1")
    b.add_address("10.0.0.2")
    for host in (a, b):
        path = t.path(f"rsockd{host.number}.conf")
        with open(path, "w") as file:
            file.write(text.replace("10.0.0.2", f"10.0.0.{host.number}")
                       + f"control: {host.control}\nlocal: {host.local}\n")
        t.check("is valid" in t.run([t.tool, "policy", "check", path], preload=False), "check")
        host.restart()
        ip("-n", host.ns, "route", "add", "10.0.0.0/24", "dev", "lan")
    explained = b.run([t.tool, "policy", "explain", "--socket", b.control, "--side", "ap",
                       "10.0.0.2", "6379"])
    t.check("verdict: map" in t.wait_out(explained), explained.out())
    t.equal(a.map("10.0.0.2", 6379)["rdma"]["ip"], "10.0.0.2", "mapped")
    t.equal(b.device("mlx0")["promised"], 1, "promised")


if __name__ == "__main__":
    sys.exit(main())
