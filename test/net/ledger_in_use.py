"""Three agents that use each other's RNICs by the ledger, while etcd fails (net_etcd_failures.py):
who holds what, and what has to be true of it afterwards.
"""
import time

from cluster_audit import Auditor, Users, entries, own, ready, remote
from lib.harness import Failure
from net_ledger import Sessions

HELD = 6500  # the service port of sessions that last
# Of a's RNIC, at which the others map sessions; and of c's, of which a and b want all there is.
SESSIONS = {"host1/rnic0": 100, "host6/rnic0": 16}


class LedgerInUse:
    """a and b have sessions that last at c's RNIC; b and c map sessions of a's all the time.
    lease_s, of the agents' entries among the members, is set by who configures them.
    """

    def __init__(self, t, etcd, a, b, c):
        self.t, self.etcd = t, etcd
        self.a, self.b, self.c = self.agents = a, b, c
        self.lease_s = None
        self.auditor = self.users = None
        self.held = {}  # sessions at c, by who has them

    def share(self):
        """Begins to use sessions, and to audit."""
        self.shared()
        self.auditor = Auditor(self.t, self.etcd, SESSIONS)
        for host in (self.a, self.b):
            self.hold(host)
        self.users = Users(self.t, [(self.b, self.a), (self.c, self.a)], SESSIONS)
        self.users.go_on()
        self.covered()

    def shared(self):
        for host in self.agents:
            ready(self.t, host, seconds=60)
        for host, owner in ((self.a, self.c), (self.b, self.c), (self.b, self.a),
                            (self.c, self.a)):
            self.t.until(lambda h=host, o=owner: remote(h, o), 30, "an offer")

    def hold(self, host):
        """A new process of the host has three sessions at c. One that it had has ended."""
        if host in self.held:
            self.held[host].client.close()
            self.held[host].server.close()
        # What begins before the host has heard of the offer is in no quota of its own.
        self.t.until(lambda: remote(host, self.c), 60, "the offer")
        s = self.held[host] = Sessions(self.t, host, self.c, port=HELD, users=(0, 0))
        self.t.until(lambda: s.begin() == "mapped" and len(s.open) >= 3, 60, "three sessions")

    def use(self, *hosts):
        """Of the sessions that last one more begins, and of many the oldest ends."""
        for host in hosts or self.held:
            self.held[host].begin()
            if len(self.held[host].open) > 5:
                self.held[host].end()
        self.users.check()

    def covered(self):
        """Waits until etcd has quotas for all sessions that last."""
        def are():
            held = self.granted("quota")
            return all(held.get(f"host6/rnic0/host{host.number}", {"sessions": 0})["sessions"] >=
                       len(s.open) for host, s in self.held.items())
        self.t.until(are, 60, "quotas for what is in use")

    def granted(self, what, node=None):
        """What etcd has below ledger/WHAT/, also if there is an election."""
        found = []

        def read():
            try:
                found.append(entries(node or self.etcd.any(), what))
            except (Failure, OSError):
                return False
            return True
        self.t.until(read, 30, "etcd to show the ledger")
        return found[0]

    def loses_its_quotas(self, host, node=None):
        """Of a host that etcd has not heard of for a lease; what it uses stays its own."""
        name = f"host{host.number}"
        self.t.until(lambda: not any(key.endswith(f"/{name}")
                                     for key in self.granted("quota", node)),
                     120, "its quotas to go with their lease")
        used = self.granted("capacity", node)["host6/rnic0"]["used"]
        self.t.check(used.get(name, 0) >= len(self.held[host].open) > 0, used)
        self.use(*(one for one in self.held if one is not host))

    def nothing_is_leaked(self, killed):
        """b was killed at that time. Its quotas end with their lease. The sessions that it has
        begun go on, and are nobody else's, until they are ended by their other end.
        """
        had = len(self.held[self.b].open)
        self.t.until(lambda: not any(key.startswith("host2/") or key.endswith("/host2")
                                     for what in ("quota", "capacity")
                                     for key in self.granted(what)), 120, "its keys to go")
        took = time.monotonic() - killed
        self.t.check(took < 2 * 4 * self.lease_s, f"quotas of a host that is dead: {took:.1f} s")
        used = self.granted("capacity")["host6/rnic0"]["used"]
        self.t.check(used.get("host2", 0) >= had > 0, f"{used}, of {had} sessions in use")
        self.users.end()
        self.held[self.b].flow()
        self.held[self.b].server.close()
        for owner in (self.a, self.c):
            self.t.until(lambda o=owner: "host2" not in str(own(o)["holders"]), 60,
                         "the owner to have nothing of it")
            self.t.until(lambda o=owner: "host2" not in self.granted("capacity")[
                f"host{o.number}/rnic0"]["used"], 60, "nothing of it to be published as used")
        s, most = self.held[self.a], SESSIONS["host6/rnic0"]

        def fill():
            s.begin()
            return len(s.open) == most
        self.t.until(fill, 90, "all that there is to be another one's")
        self.t.equal(own(self.c)["booked"], most, "in use")
        s.flow()
