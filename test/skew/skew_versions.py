#!/usr/bin/python3
"""Releases of two versions on one host: libraries, rsockd and tool, in both roles. They talk, or
the stream stays on TCP, with a reason that says so, and nothing spins or is tried without bound.

The other release is <build>/newer, whose every version is one higher, or, with RSOCK_TEST_OTHER, a
folder with librsock.so, rsockd and rsock of a real earlier build (scripts/test-skew.sh). Of that
one it is not known whether the two can talk, so it may be either.
"""
import json
import os
import re
import subprocess
import sys
import time

from lib.harness import PYTHON, case, main

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "net"))
from netlab import Lab  # noqa: E402  pylint: disable=wrong-import-position

PORT = 7000
ALICE, BOB = 60001, 60002
REAL = os.environ.get("RSOCK_TEST_OTHER")
# The reasons of a release from before `version`, where no link comes up. It tries again and again.
FORMER = {"link-error", "no-peer", "other-user"}
# System calls of the program's own.
OWN = {"sendto", "recvfrom", "read", "select", "pselect6"}
# Calls with which an attempt begins, at the other end or at rsockd.
ATTEMPTS = {"socket", "connect", "memfd_create", "clone", "clone3", "vfork", "sendmsg"}
WATCHED_S = 0.7  # with calls, and in silence
SPIN_TICKS = 7  # of 10 ms, in that time


class Release:
    """A folder, or the build under test."""

    def __init__(self, t, folder=None):
        self.name = "other" if folder else "this"
        self.library = os.path.join(folder, "librsock.so") if folder else t.library
        self.tool = os.path.join(folder, "rsock") if folder else t.tool
        self.rsockd = os.path.join(folder or t.bin, "rsockd")
        self.t = t

    def asks(self, *words, expect=(0, 1, 3)):
        done = subprocess.run([self.tool, words[0], "--json", *map(str, words[1:])],
                              capture_output=True, timeout=30, check=False)
        self.t.check(done.returncode in expect, f"{words}: {done}")
        return json.loads(done.stdout)

    def stream(self, pid):
        """Of the open stream of a process of this release: reason and paths."""
        found = [stream for stream in self.asks("stat", "--all", "--pid", pid)["streams"]
                 if stream["open"]]
        return tuple(found[0][key] for key in ("reason", "tx", "rx")) if len(found) == 1 else None


def releases(t):
    other = REAL or os.path.join(os.path.dirname(t.bin), "newer")
    t.check(os.path.exists(os.path.join(other, "librsock.so")), f"no librsock.so in {other}")
    return Release(t), Release(t, other)


def knows_versions(t):
    _this, other = releases(t)
    return "version" in {row["reason"] for row in other.asks("reasons")["reasons"]}


class Pair:
    """Server and client of end.py, each with a release's library; None: without any."""

    def __init__(self, t, server, client, spawn=None, address="127.0.0.1", port=None, env=None):
        self.t, self.port, self.of = t, port or t.free_port(), (server, client)
        self.logs = t.path(f"log-{self.port}")
        self.procs = []
        for role, release in (("serve", server), ("connect", client)):
            words = [PYTHON, "-B", os.path.join(HERE, "end.py"), role, address, self.port]
            if spawn:
                proc = spawn(role, release, words)
            else:
                more = [f"LD_PRELOAD={release.library}", "RSOCK_LOG=info",
                        f"RSOCK_LOG_FILE={self.logs}", *(env or ())] if release else []
                proc = t.spawn(["env", *more, *words], preload=False, name=role, stdin="pipe")
            self.procs.append(proc)
            if role == "serve":
                t.listening(proc, self.port)
        self.server, self.client = self.procs

    def streams(self):
        return [release.stream(proc.pid) for release, proc in zip(self.of, self.procs)]

    def reasons(self):
        return {stream and stream[0] for stream in self.streams()}

    def settles(self, reason):
        """Waits until both ends are on TCP for the reason; of a real release, or direct."""
        def there():
            if REAL:
                accepted = {reason} | (set() if knows_versions(self.t) else FORMER)
                return self.reasons() == {"direct"} or self.reasons() <= accepted
            return self.streams() == [(reason, "tcp", "tcp")] * 2
        try:
            self.t.until(there, 20, f"both ends to say {reason}")
        except Exception as error:
            raise type(error)(f"{error}: {self.streams()}") from None
        return self

    def calls(self):
        """{system call: how often} of each end in that time."""
        out = [self.t.path(f"calls-{proc.pid}") for proc in self.procs]
        tracers = [subprocess.Popen(["strace", "-f", "-qq", "-o", path, "-p", str(proc.pid)],
                                    stderr=subprocess.DEVNULL)
                   for path, proc in zip(out, self.procs)]
        time.sleep(WATCHED_S)
        found = []
        for tracer, path in zip(tracers, out):
            tracer.terminate()
            tracer.wait(timeout=10)
            with open(path, encoding="utf-8", errors="replace") as file:
                names = re.findall(r"^\d+ +(\w+)\(", file.read(), re.MULTILINE)
            found.append({name: names.count(name) for name in set(names)})
        return found

    def is_quiet(self, most=4, counted=None):
        """While bytes are exchanged the library makes at most so many calls of its own (counted:
        of these only); without bytes neither end does anything.
        """
        for proc, calls in zip(self.procs, self.calls()) if knows_versions(self.t) else ():
            self.t.check(sum(calls.values()) > 20, f"{proc.name}: strace has seen {calls}")
            more = {name: n for name, n in calls.items()
                    if (name in counted if counted else name not in OWN)}
            self.t.check(sum(more.values()) <= most, f"{proc.name}: calls {more}")
        self.tell()
        before = [ticks(proc.pid) for proc in self.procs]
        time.sleep(WATCHED_S)
        spent = [ticks(proc.pid) - was for proc, was in zip(self.procs, before)]
        self.t.check(max(spent) < SPIN_TICKS, f"ticks of the processor in silence: {spent}")
        return self

    def tell(self):
        self.client.stdin.write(b"\n")

    def ends(self):
        """Lets both end; returns what they have printed."""
        self.tell()
        return [self.t.wait_out(proc, 30) for proc in (self.client, self.server)]

    def log(self, text):
        """How many lines of the library's log have that text."""
        with open(self.logs, encoding="utf-8", errors="replace") as file:
            return sum(text in line for line in file)


def ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def on_tcp(t):
    """What the two print without any library."""
    pair = Pair(t, None, None)
    pair.tell()
    return pair.ends()


def meet(t, server, client):
    wanted = on_tcp(t)
    pair = Pair(t, server, client).settles("version")
    reasons = pair.reasons()
    if "direct" in reasons:
        pair.tell()
    else:
        pair.is_quiet()
    if not REAL:
        for end in (pair.server, pair.client):
            t.equal(pair.log(f"pid {end.pid} has version"), 1, "lines that name both versions")
    t.equal(pair.ends(), wanted, "what both ends have seen")
    if REAL:
        print(f"{server.name} server, {client.name} client: {sorted(reasons)}")


@case(timeout=60)
def an_older_server(t):
    this, other = releases(t)
    meet(t, this, other)


@case(timeout=60)
def a_newer_server(t):
    this, other = releases(t)
    meet(t, other, this)


@case(timeout=60)
def the_other_release_works(t):
    """Two processes of the other release are direct: what keeps them on TCP is the difference."""
    _this, other = releases(t)
    pair = Pair(t, other, other)
    t.until(lambda: pair.streams() == [("direct", "ring", "ring")] * 2, 20, "both to be direct")
    pair.tell()
    t.equal(pair.ends(), on_tcp(t), "what both ends have seen")


def tells(t, asks, pair, of):
    """The tool @asks of one release about a pair of another one."""
    shown = asks.asks("stat", "--all")
    pids = [proc.pid for proc in pair.procs]
    t.check(not [stream for stream in shown["streams"] if stream["pid"] in pids],
            f"streams that it cannot read: {shown}")
    named = [row["pid"] for row in shown["other_versions"]]
    t.check(set(pids) <= set(named), f"{pids} of another version: {shown['other_versions']}")
    text = subprocess.run([asks.tool, "stat", "--all"], capture_output=True, text=True, timeout=30,
                          check=True)
    for pid in pids:
        t.check(re.search(rf"^{pid} +\S+ +other-version: .*version \d+, .* version \d+$",
                          text.stdout, re.MULTILINE), f"stat of {pid}: {text}")
    for pid in pids:
        told = asks.asks("why", pid, expect=(1,))
        t.equal((told["processes"][0]["finding"], told["streams"][0]["end"]["reason"]),
                ("other-version", "other-version"), f"why of {pid}, a process of {of}")
    told = asks.asks("demote", f":{pair.port}")
    t.equal(told["streams"], [], "demote has nothing that it could ask")


@case(timeout=60)
def tools_of_the_other_release(t):
    """Each tool about the processes of the other release: they are named, and not left out."""
    this, other = releases(t)
    for release, tool in ((this, other), (other, this)):
        if REAL and tool is other:
            continue  # what an earlier tool says is not ours to change
        pair = Pair(t, release, release)
        t.until(lambda p=pair: p.streams() == [("direct", "ring", "ring")] * 2, 20,
                "both to be direct")
        if REAL and this.stream(pair.server.pid):
            print("this tool reads the other release's statistics")
        else:
            tells(t, tool, pair, release.name)
        for proc in pair.procs:
            t.kill(proc)


def with_daemon(t, library, daemon, reason):
    """Two users, for whom rsockd would vouch, if library and rsockd understood each other."""
    host = Lab(t, 1).hosts[0]
    host.binary = daemon.rsockd
    host.start(user="nobody", vouch=[{"users": [str(ALICE), str(BOB)]}])
    t.library = library.library

    def spawn(role, release, words):
        return host.run([*words[:2], host.lab.reachable(words[2]), *words[3:]], preload=True,
                        user=ALICE if role == "serve" else BOB, name=role, stdin="pipe",
                        env={"RSOCK_DAEMON": host.local, "RSOCK_LOG": "info"})
    with host.inside():
        pair = Pair(t, library, library, spawn, host.ip, PORT)
        pair.settles(reason)
    return host, pair


def daemons(t, library, daemon):
    host, pair = with_daemon(t, library, daemon, "rsockd-version")
    reasons = pair.reasons()
    if "direct" in reasons:
        pair.tell()
    else:
        began = host.figure("local_hellos_total")
        pair.is_quiet(counted=ATTEMPTS)
        more = host.figure("local_hellos_total") - began
        t.check(not more or not knows_versions(t), f"{more} connections more")
        if not REAL:
            t.equal(host.figure("local_other_version_total"), 2, "each has tried once")
            t.equal(host.figure("local_refused_total"), 0, "messages that are taken for invalid")
    t.equal(pair.ends(), on_tcp(t), "what both ends have seen")
    if REAL:
        print(f"{library.name} library, {daemon.name} rsockd: {sorted(reasons)}")


@case(timeout=60)
def an_older_rsockd(t):
    this, other = releases(t)
    daemons(t, other, this)


@case(timeout=60)
def a_newer_rsockd(t):
    this, other = releases(t)
    daemons(t, this, other)


if __name__ == "__main__":
    raise SystemExit(main())
