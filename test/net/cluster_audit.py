"""What the scripts about a cluster need to say that a failure has done no harm: a stream that goes
on all the time, hosts that use each other's RNICs, and an auditor that reads all that is granted
in the ledger of remote ports, at each revision of etcd.
"""
import base64
import http.client
import json
import threading
import time

from etcdlab import PREFIX, EtcdCluster, b64
from lib.harness import Failure
from net_rsockd import SERVICE

HOLD_S = 4  # the least that is allowed
LEASE_S = 2 * HOLD_S  # of quotas
LEDGER = f"{PREFIX}/ledger/"


def ledger(host):
    return host.get("/v1/policy/ledger")


def ready(t, host, want="shared", seconds=20):
    t.until(lambda: ledger(host)["state"] == want, seconds,
            f"host {host.number} to have the ledger {want}")


def remote(host, owner):
    """What the host knows of the owner's RNIC, or None."""
    return next((one for one in ledger(host)["remote"]
                 if one["rnic"] == f"host{owner.number}/rnic0"), None)


def own(host):
    return ledger(host)["own"][0]


def count(host, name):
    return host.figure(f"cluster_ledger_{name}_total")


def entries(etcd, what):
    """What etcd has below ledger/WHAT/, by the rest of the key: the value, parsed or None."""
    head = f"{LEDGER}{what}/"
    found = etcd.do("kv/range", key=b64(head), range_end=b64(head[:-1] + "0")).get("kvs", [])
    return {base64.b64decode(one["key"]).decode()[len(head):]: parsed(one) for one in found}


def parsed(entry):
    """The value of an entry, or None."""
    try:
        return json.loads(base64.b64decode(entry.get("value", "")).decode())
    except ValueError:
        return None


def quotas(etcd, owner):
    """Sessions by holder."""
    head = f"host{owner.number}/rnic0/"
    return {name[len(head):]: one["sessions"] for name, one in entries(etcd, "quota").items()
            if name.startswith(head)}


def claims(found):
    """What an answer of etcd has of each RNIC (NODE/RNIC), by holder: its quota, or what the owner
    has published as used by it, if that is more. What cannot be read is no grant.
    """
    claimed = {}
    for one in found.get("kvs", []):
        name = base64.b64decode(one["key"]).decode()[len(LEDGER):].split("/")
        value = parsed(one)
        try:
            if name[0] == "quota":
                _, node, rnic, holder = name
                sessions = {holder: value["sessions"]}
            else:
                _, node, rnic = name
                sessions = value["used"]
            held = claimed.setdefault(f"{node}/{rnic}", {})
            for holder, number in sessions.items():
                held[holder] = max(held.get(holder, 0), number)
        except (AttributeError, KeyError, TypeError, ValueError):
            pass
    return claimed


class Auditor:
    """Reads the ledger at each revision of etcd, also at those that were made while etcd was away,
    and sums up what is claimed of each RNIC. A revision is the same at all nodes, so any of them is
    asked for what it has, without a word to the others. forged: holders that the case has made up.
    """

    def __init__(self, t, etcd, limits, forged=()):
        self.t, self.limits, self.forged = t, limits, forged  # limits: by NODE/RNIC
        self.nodes = etcd.nodes if isinstance(etcd, EtcdCluster) else [etcd]
        self.wrong, self.trouble = [], None
        self.seen = self.looks = self.forgotten = self.most = 0
        self.ended = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def read(self, node, **how):
        """All of it at a revision, or now. None: etcd has forgotten that revision."""
        status, found = node.ask("kv/range", 3, **{"key": b64(LEDGER), "serializable": True,
                                                   "range_end": b64(LEDGER[:-1] + "0"), **how})
        if status != 200 and "compacted" in str(found):
            return None
        if status != 200:
            raise Failure(f"{status} {found}")
        return found

    def judge(self, revision, found):
        self.seen, self.looks = revision, self.looks + 1
        for rnic, held in claims(found).items():
            granted = sum(number for holder, number in held.items() if holder not in self.forged)
            if rnic in self.limits:
                self.most = max(self.most, granted)
            if granted > self.limits.get(rnic, granted):
                self.wrong.append((revision, rnic, held))

    def look(self, node):
        """Reads all revisions up to the newest one of that node."""
        newest = self.read(node)
        last = int(newest["header"]["revision"])
        for revision in range(self.seen + 1 if self.seen else last, last):
            found = self.read(node, revision=revision)
            if found:
                self.judge(revision, found)
            else:
                self.forgotten += 1
        if last > self.seen:
            self.judge(last, newest)

    def run(self):
        while not self.ended:
            for node in self.nodes:
                try:
                    self.look(node)
                except (OSError, Failure, http.client.HTTPException):
                    pass  # that node is away, or no majority is there
                except Exception as error:  # an auditor that has ended finds nothing
                    self.trouble = repr(error)
                    return
                time.sleep(0.05)

    def end(self):
        """Reads up to the revision that is the newest one now."""
        newest = self.t.until(lambda: max(map(self.newest, self.nodes)), 60, "etcd to answer")
        self.t.until(lambda: self.trouble or self.seen >= newest, 60, f"revision {newest}")
        self.ended = True
        self.thread.join(60)
        self.t.check(not self.trouble and not self.thread.is_alive(), f"auditor: {self.trouble}")
        self.t.equal(self.wrong[:3], [], "what was granted twice")
        self.t.check(not self.forgotten or self.forgotten < self.looks,
                     f"{self.forgotten} revisions that were not read")
        self.t.check(self.most > 0, f"nothing was granted, in {self.looks} revisions")

    def newest(self, node):
        """As a majority has it; 0: it is not known."""
        try:
            return int(self.read(node, serializable=False)["header"]["revision"])
        except (OSError, Failure, http.client.HTTPException):
            return 0


class Users:
    """Hosts that map sessions of each other's RNICs, one after the other, until they are ended. A
    session that is mapped and not used ends after the PmTime of its service.
    """

    SERVICE = {"name": "used", "ports": ["6000-6063"], "pm-time": "3s"}
    EACH = 4  # ports of the service that a host asks for in turn
    PAUSE_S = 0.1

    def __init__(self, t, pairs, limits):
        self.t, self.limits = t, limits  # pairs: who asks, and whom; limits: as the auditor's
        self.outcomes = {pair: {} for pair in pairs}
        self.wrong, self.trouble, self.ended = [], None, False
        self.threads = [threading.Thread(target=self.run, args=pair, daemon=True)
                        for pair in pairs]
        for thread in self.threads:
            thread.start()

    def run(self, holder, owner):
        told = self.outcomes[holder, owner]
        number = 0
        while not self.ended:
            number += 1
            try:
                said = holder.map(owner, 6000 + number % self.EACH)
                told[said["outcome"]] = told.get(said["outcome"], 0) + 1
                booked = own(owner)["booked"]
                if booked > self.limits[f"host{owner.number}/rnic0"]:
                    self.wrong.append((owner.number, booked))
            except (OSError, Failure, http.client.HTTPException):
                pass  # one of the two is stopped, or not started yet
            except Exception as error:
                self.trouble = repr(error)
                return
            time.sleep(self.PAUSE_S)

    def mapped(self, pair):
        return self.outcomes[pair].get("mapped", 0)

    def go_on(self, seconds=60):
        """Waits until each of them has got another session."""
        before = {pair: self.mapped(pair) for pair in self.outcomes}
        self.t.until(lambda: self.trouble or all(self.mapped(pair) > n
                                                 for pair, n in before.items()), seconds,
                     f"a session of each: {self.outcomes}")
        self.check()

    def check(self):
        self.t.check(not self.trouble, f"users of sessions: {self.trouble}")
        self.t.equal(self.wrong[:3], [], "more sessions than the RNIC has")

    def end(self):
        self.ended = True
        for thread in self.threads:
            thread.join(60)
        self.check()


class Stream:
    """Both ways between a program on each of two hosts, until it is ended."""

    def __init__(self, a, b):
        self.t, self.rounds, self.trouble, self.ended = a.t, 0, None, False
        self.paused_s = 0  # at the most
        self.client, self.server = a.peer(), b.peer().listen(SERVICE)
        self.client.connect(self.server)
        self.thread = threading.Thread(target=self.carry, daemon=True)
        self.thread.start()

    def carry(self):
        try:
            while not self.ended:
                began = time.monotonic()
                self.client.exchange(self.server, 50000)
                self.paused_s = max(self.paused_s, time.monotonic() - began)
                self.rounds += 1
        except (Failure, OSError, ValueError) as error:
            self.trouble = error

    def goes_on(self, seconds=60):
        before = self.rounds
        self.t.until(lambda: self.trouble or self.rounds > before + 1, seconds,
                     "the stream to go on")
        self.t.check(not self.trouble, f"the stream: {self.trouble}")

    def end(self, pause_s):
        self.goes_on()
        self.ended = True
        self.thread.join()
        self.t.check(not self.trouble, f"the stream: {self.trouble}")
        self.t.check(self.paused_s < pause_s, f"the stream paused for {self.paused_s:.1f} s")
