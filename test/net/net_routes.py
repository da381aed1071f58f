#!/usr/bin/python3
"""Outbound RNICs by the kernel's routes: one by whose link routes lead to the target is preferred;
a change of routes counts from the next decision on.
"""
import sys

from lib.harness import case, main
from net_rsockd import SERVICE, asking, serving
from netlab import Lab, ip

FIRST, SECOND, FIRST6 = "10.77.1.1", "10.77.1.2", "fd77:1::1"
NO_ROUTE = "device r0: left out: this host has no route to the peer by it"


class Two:
    """Host a has two RNICs: r0, which is preferred, on a link of its own without any route, and r1
    on the wire to host b.
    """

    def __init__(self, t, **more):
        self.t = t
        self.a, self.b = Lab(t, 2).hosts
        a = self.a
        ip("-n", a.ns, "link", "add", "rn0", "type", "veth", "peer", "name", "far0")
        for link in ("rn0", "far0"):
            ip("-n", a.ns, "link", "set", link, "up")
        ip("-n", a.ns, "address", "add", f"{FIRST}/32", "dev", "rn0")
        ip("-n", a.ns, "address", "add", f"{FIRST6}/128", "dev", "rn0", "nodad")
        a.add_address(SECOND)
        self.rnics = [{"name": "r0", "addresses": [FIRST, FIRST6], **more},
                      {"name": "r1", "addresses": [SECOND, a.ip6], "order": 1}]
        a.start(**asking(a, rnics=self.rnics))
        self.b.start(**serving(self.b))
        self.number = 0
        t.until(lambda: a.device("r0")["state"] == "up", 20, "r0 to be up")

    def route(self, *words, v6=False):
        ip("-n", self.a.ns, *(("-6",) if v6 else ()), *words)

    def explain(self, to=None):
        return self.a.post("/v1/explain", {"side": "cp", "ip": to or self.b.ip, "port": SERVICE,
                                           "from": self.a.ip6 if ":" in (to or "") else self.a.ip})

    def is_on(self, device, what, to=None):
        """Whether a new session to b goes by that RNIC of a; None: by none of them."""
        said = self.explain(to)
        self.t.equal(said.get("device"), device, f"{what}: {said}")
        if device != "r0" and not self.is_configured():
            self.t.check(NO_ROUTE in "\n".join(said["steps"]), f"{what}: {said}")

    def is_by_none(self, what, to=None):
        """By none there is a route, and the choice is as if there were no routes."""
        said = self.explain(to)
        self.t.equal(said.get("device"), "r0", f"{what}: {said}")
        self.t.check("without regard to routes" in "\n".join(said["steps"]), f"{what}: {said}")

    def is_configured(self):
        return "reach" in self.rnics[0]

    def mapped(self):
        self.number += 1
        answer = self.a.map(self.b, SERVICE, cp_port=self.number)
        return answer.get("device") if answer["outcome"] == "mapped" else answer["outcome"]


@case(timeout=60)
def a_route_by_one_link_only(t):
    """The route that is added is not the one that the host itself takes: it is a worse one."""
    lab = Two(t)
    far = ("10.77.0.0/24", "dev", "rn0", "metric", "1000")
    lab.is_on("r1", "no route by r0")
    t.equal(lab.mapped(), "r1", "a mapping")
    lab.route("route", "add", *far)
    lab.is_on("r0", "with a route")
    t.equal(lab.mapped(), "r0", "a mapping with the route")
    lab.route("route", "del", *far)
    lab.is_on("r1", "without it")
    # By a router, and by the default route.
    lab.route("route", "add", "10.77.1.9/32", "dev", "rn0")
    lab.route("route", "add", "default", "via", "10.77.1.9", "dev", "rn0", "metric", "1000")
    lab.is_on("r0", "the default route")
    for kind in ("unreachable", "blackhole", "prohibit"):
        lab.route("route", "replace", kind, f"{lab.b.ip}/32")
        lab.is_by_none(kind)
    lab.route("route", "del", "prohibit", f"{lab.b.ip}/32")
    lab.is_on("r0", "and without that route")


@case(timeout=60)
def a_rule_by_source(t):
    lab = Two(t)
    lab.route("route", "add", "10.77.0.0/24", "dev", "rn0", "table", "100")
    lab.is_on("r1", "a table that no rule names")
    lab.route("rule", "add", "from", SECOND, "lookup", "100")
    lab.is_on("r1", "a rule for another source")
    lab.route("rule", "add", "from", FIRST, "lookup", "100")
    lab.is_on("r0", "a rule for this source")
    lab.route("rule", "del", "from", FIRST, "lookup", "100")
    lab.is_on("r1", "without the rule")
    # And the other way round: a route that the rule hides.
    lab.route("route", "add", "10.77.0.0/24", "dev", "rn0", "metric", "1000")
    lab.is_on("r0", "a route")
    lab.route("rule", "add", "from", FIRST, "unreachable")
    lab.is_on("r1", "a rule that refuses")


@case(timeout=60)
def ipv6(t):
    lab = Two(t)
    far = ("fd77::/64", "dev", "rn0", "metric", "2000")
    lab.is_on("r1", "no route by r0", lab.b.ip6)
    lab.route("route", "add", *far, v6=True)
    lab.is_on("r0", "a route, though a better one leads by the other link", lab.b.ip6)
    lab.route("route", "del", *far, v6=True)
    lab.is_on("r1", "without it", lab.b.ip6)
    lab.route("route", "add", "fd77::/64", "dev", "rn0", "table", "100", v6=True)
    lab.route("rule", "add", "from", FIRST6, "lookup", "100", v6=True)
    lab.is_on("r0", "a rule by source", lab.b.ip6)
    lab.route("route", "add", "unreachable", f"{lab.b.ip6}/128", "table", "100", v6=True)
    lab.is_on("r1", "unreachable", lab.b.ip6)
    lab.route("route", "add", "unreachable", f"{lab.b.ip6}/128", v6=True)
    lab.is_by_none("for both", lab.b.ip6)


@case(timeout=60)
def both_links_in_one_network(t):
    """Each of them reaches it, whichever the kernel would take."""
    lab = Two(t)
    ip("-n", lab.a.ns, "address", "add", "10.77.0.201/24", "dev", "rn0")
    ip("-n", lab.a.ns, "address", "add", "fd77::201/64", "dev", "rn0", "nodad")
    for to in (lab.b.ip, lab.b.ip6):
        lab.is_on("r0", "both links", to)
        lab.a.post("/v1/drain", {"device": "r0"})
        said = lab.explain(to)
        t.equal(said.get("device"), "r1", f"the other one, too: {said}")
        lab.a.post("/v1/drain", {"device": "r0", "on": False})
    # Addresses of the host itself are reached by each of its links.
    for to in (lab.a.ip, lab.a.ip6, SECOND, FIRST, "127.0.0.1", "::1"):
        said = lab.explain(to)
        t.equal(said.get("device"), "r0", f"{to}: {said}")


@case(timeout=60)
def a_fabric_of_its_own(t):
    """The only RNIC is in another network than the connection, to whose target it has no route: the
    AP may name an address in its network. So does one beside an RNIC with a route that is drained.
    """
    lab = Two(t)
    a = lab.a
    a.post("/v1/drain", {"device": "r1"})
    lab.is_by_none("the one with a route is drained")
    a.write_config(**{**a.config, "rnics": lab.rnics[:1]})
    a.post("/v1/reload", {})
    lab.is_by_none("the host has a route")
    t.equal(lab.mapped(), "r0", "a mapping")


@case(timeout=60)
def a_configured_reach_wins(t):
    lab = Two(t, reach=["10.77.0.0/24"])
    lab.is_on("r0", "it is said to reach it")
    t.equal(lab.mapped(), "r0", "a mapping")


@case(timeout=60)
def many_changes_at_once(t):
    """More notifications than the kernel keeps for a daemon that does not read them."""
    lab = Two(t)
    lab.is_on("r1", "no route by r0")
    asked = lab.a.figure("routes_asked_total")
    lab.is_on("r1", "no route by r0")
    t.equal(lab.a.figure("routes_asked_total"), asked, "what is known is not asked again")
    path = t.path("routes")
    for verb in ("add", "del"):
        with open(path, "w") as file:
            file.writelines(f"route {verb} 10.78.{n // 250}.{n % 250}/32 dev rn0\n"
                            for n in range(2000))
            file.write(f"route {verb} 10.77.0.0/24 dev rn0 metric 1000\n")
        ip("-n", lab.a.ns, "-batch", path)
        lab.is_on("r0" if verb == "add" else "r1", f"{verb} after many others")
        lab.is_on("r0" if verb == "add" else "r1", f"{verb} again")
    t.equal(lab.a.figure("routes_unanswered_total"), 0, "questions without an answer")


if __name__ == "__main__":
    sys.exit(main())
