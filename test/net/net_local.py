#!/usr/bin/python3
"""rsockd and the processes of its host: streams between users, figures, listeners, remote ends."""
import atexit
import json
import os
import subprocess
import sys
import time

from lib.harness import case, main
import netlab
from net_rsockd import asking, serving
from netlab import Lab

ALICE, BOB, MALLORY = 60001, 60002, 60003
PORT = 7000
BOTH = [{"users": [str(ALICE), str(BOB)]}]
MEMFD_CREATE = 319  # the system call, on x86-64


def host_with(t, number=0, hosts=1, **config):
    host = Lab(t, hosts).hosts[number]
    return host.start(**{"user": "nobody", **config})


def users(host, server=ALICE, client=BOB, port=PORT, **options):
    return host.peer(user=server, **options).listen(port), host.peer(user=client, **options)


def until_direct(t, host, a, b, ends, group="s", seconds=20):
    """Exchanges until both ends of each stream move their bytes through rings; rsockd's counters
    say so.
    """
    def direct():
        a.ping(b, group)
        return host.streams("direct") == ends
    t.until(direct, seconds, f"{ends} ends to be direct")


def stays_tcp(t, host, a, b, ends, group="s", reason=None):
    """So many pings that any stream that can be direct would be."""
    for _ in range(20):
        a.ping(b, group)
    t.equal(host.streams("tcp", reason), ends, f"ends that stay on TCP ({host.metrics()})")


def links(t):
    """{process: numbers of links} of the open streams."""
    t.stats.sample()
    found = {}
    for stream in t.stats.streams.values():
        if stream.record.get("open") and stream.record.get("link"):
            found.setdefault(stream.pid, set()).add(stream.record["link"])
    return found


@case(timeout=60)
def two_users_meet(t):
    a = host_with(t, vouch=BOTH)
    server, client = users(a)
    client.connect(server)
    until_direct(t, a, client, server, 2)
    for _ in range(3):
        client.exchange(server, 30 << 20)
    client.ping(server, rounds=500, seed=5)
    t.equal(a.streams("direct", "direct"), 2, "ends that are direct")
    t.equal((a.figure("processes"), a.figure("listeners")), (2, 1), "gauges")
    t.equal((a.figure("local_vouched_total"), a.figure("local_not_allowed_total")), (1, 0),
            "counters")
    t.check(a.figure('streams_bytes_total{path="ring"}') > 300 << 20, a.metrics())
    t.stats.direct(PORT, to_server=90 << 20, to_client=90 << 20, share=0.5)


def told(t, host, *words):
    """Exit status and output of the tool in the host's namespace, which asks the rsockd that the
    processes use.
    """
    proc = host.run([t.tool, words[0], "--json", *words[1:]], env={"RSOCK_DAEMON": host.local},
                    name="rsock")
    t.wait(proc, 20, None)
    return proc.popen.returncode, json.loads(proc.out())


@case(timeout=60)
def what_the_tool_says_of_two_users(t):
    """stat, why and check for a pair that rsockd vouches for, and for one that it does not: they
    agree about both ends.
    """
    host = host_with(t, vouch=[{**BOTH[0], "ports": [str(PORT)]}])
    server, client = users(host)
    server.do("listen", group="l7002", at=["0.0.0.0", 7002])
    client.connect(server)
    client.connect(server, "other", port=7002)
    until_direct(t, host, client, server, 2)
    t.until(lambda: client.ping(server, "other") and host.streams("tcp", "other-user") == 2, 20,
            "the other to be refused")
    for port, reason in ((PORT, "direct"), (7002, "other-user")):
        status, why = told(t, host, "why", f":{port}")
        t.equal(status, 0 if reason == "direct" else 1, f"why's exit status of {port}")
        ends = why["streams"][0]
        t.equal((ends["end"]["reason"], ends["other_end"]["reason"]), (reason, reason),
                f"why of {port}")
        t.equal(bool(ends["cure"]), reason != "direct", f"a cure: {ends}")
        _status, stat = told(t, host, "stat", "--all")
        t.equal({stream["reason"] for stream in stat["streams"]
                 if f":{port}" in stream["local"] + stream["peer"]}, {reason},
                f"stat of {port}")
    # An end that has looked again while it was introduced is pending, and nobody comes for it.
    before = host.figure("pending_lookups"), host.figure("local_vouched_total")
    # check runs as root: first no entry of vouch names root, then one names everybody.
    status, check = told(t, host, "check", host.ip, str(PORT))
    t.equal((status, check["reason"]), (1, "other-user"), "check of a user that is not named")
    host.write_config(user="nobody", vouch=[{"users": ["any"]}])
    host.post("/v1/reload", {})
    status, check = told(t, host, "check", host.ip, str(PORT))
    t.equal((status, check["reason"], check["accelerated"]), (0, "direct", True),
            "check of one that is")
    t.equal((host.figure("pending_lookups"), host.figure("local_vouched_total")), before,
            "asking has no effect")


@case(timeout=60)
def the_rights_of_nobody_suffice(t):
    a = host_with(t, vouch=[{"users": ["any"]}])
    with open(f"/proc/{a.daemon.pid}/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file)
    t.equal((status["CapEff"], status["Seccomp"]), ("0" * 16, "2"),
            "capabilities, system call filter")
    server, client = users(a)
    client.connect(server)
    until_direct(t, a, client, server, 2)


@case(timeout=60)
def members_of_a_group(t):
    """The members that the system's list names, as they are when the file is read; one of them is
    no user any more.
    """
    def write(*members):
        with open("/etc/group", encoding="utf-8") as file:
            text = file.read()
        with open(groups, "w", encoding="utf-8") as file:
            file.write(f"{text}rsock-test:x:60900:{','.join(map(str, members))}\n")
    groups = t.path("group")
    write(ALICE, "no-such-user", BOB)
    netlab.UNDER[:] = ["unshare", "-m", "--propagation", "private", "sh", "-c",
                       f"mount --bind {groups} /etc/group && exec \"$@\"", "sh"]
    host = host_with(t, vouch=[{"groups": ["rsock-test"]}])
    server, client = users(host)
    client.connect(server)
    until_direct(t, host, client, server, 2)
    mallory = host.peer(user=MALLORY)
    mallory.connect(server, "before")
    stays_tcp(t, host, mallory, server, 2, "before", "other-user")
    write(ALICE, MALLORY)
    host.post("/v1/reload", {})
    mallory.connect(server, "after")
    until_direct(t, host, mallory, server, 4, "after")
    bob = host.peer(user=BOB)
    bob.connect(server, "late")
    stays_tcp(t, host, bob, server, 4, "late", "other-user")
    host.write_config(user="nobody", vouch=[{"groups": ["no-such-group"]}])
    status, said = host.ask("POST", "/v1/reload", {})
    t.check(status >= 400 and "no-such-group" in str(said), f"a group that is not there: {said}")


@case(timeout=60)
def not_allowed(t):
    a = host_with(t, vouch=[{"users": [str(ALICE), str(MALLORY)]}])
    server, client = users(a)
    client.connect(server)
    t.until(lambda: client.ping(server) and a.streams("tcp", "other-user") == 2, 20,
            "both ends to say other-user")
    client.exchange(server, 10 << 20)
    stays_tcp(t, a, client, server, 2, reason="other-user")
    t.equal(a.figure("local_vouched_total"), 0, "pairs brought together")
    t.until(lambda: a.figure("local_not_allowed_total") >= 2, 20, "both ends to be counted")


@case(timeout=60)
def one_who_may_not_meets_one_of_his_own(t):
    """Processes of one user need no entry of vouch, and a user that no entry names can use them
    among its own processes.
    """
    a = host_with(t)
    server, client = users(a, MALLORY, MALLORY)
    client.connect(server)
    until_direct(t, a, client, server, 2)


@case(timeout=60)
def ports_of_vouch(t):
    a = host_with(t, vouch=[{**BOTH[0], "ports": [f"{PORT}-{PORT + 1}"]}])
    server, client = users(a)
    server.do("listen", group="l7002", at=["0.0.0.0", 7002])
    client.connect(server)
    client.connect(server, "other", port=7002)
    until_direct(t, a, client, server, 2)
    t.until(lambda: client.ping(server, "other") and a.streams("tcp", "other-user") == 2, 20,
            "the other to be refused")


class Cgroups:
    """Control groups of version 2, below one of this case's own. They are mounted for no one else:
    a folder of temporary files is removed with all below it.
    """
    MOUNT = ["unshare", "--mount", "sh", "-ec"]

    def __init__(self):
        self.name = f"/rsock-test-{os.getpid()}"
        atexit.register(self.remove)

    def starting(self, name):
        """Words that start a program in a group."""
        return [*self.MOUNT, """mount -t cgroup2 cgroup2 /mnt
                mkdir -p "/mnt$0"
                echo $$ >"/mnt$0/cgroup.procs"
                umount /mnt
                exec "$@\"""", self.name + name]

    def remove(self):
        subprocess.run([*self.MOUNT, """mount -t cgroup2 cgroup2 /mnt
                        find "/mnt$0" -depth -type d -exec rmdir {} +""", self.name], check=True)


@case(timeout=60)
def control_groups_of_vouch(t):
    """Processes of two users in groups that an entry names, and in one that another entry names."""
    groups = Cgroups()
    a = host_with(t, vouch=[{"cgroups": [f"{groups.name}/{name}"]} for name in ("pod-*", "other")])
    server = a.peer(user=ALICE, within=groups.starting("/pod-1/server")).listen(PORT)
    client = a.peer(user=BOB, within=groups.starting("/pod-2"))
    client.connect(server)
    until_direct(t, a, client, server, 2)
    other = a.peer(user=BOB, within=groups.starting("/other"))
    other.connect(server, "other")
    t.until(lambda: other.ping(server, "other") and a.streams("tcp", "other-user") == 2, 20,
            "both ends to say other-user")
    other.exchange(server, 5 << 20, "other")
    t.equal((a.streams("direct"), a.figure("local_vouched_total")), (2, 1), "ends that are direct")


@case(timeout=120)
def fifty_streams_share_a_link(t):
    a = host_with(t, vouch=BOTH)
    server, client = users(a)
    client.connect(server, n=50)
    until_direct(t, a, client, server, 100, seconds=60)
    t.equal(sorted(map(len, links(t).values())), [1, 1], "links of each process")
    client.exchange(server, 1 << 20)


@case(timeout=60)
def streams_both_ways(t):
    """Each of the two has connected to the other: one link carries all streams."""
    a = host_with(t, vouch=BOTH)
    one, two = users(a)
    two.listen(PORT + 1)
    two.connect(one, "there", 5, port=PORT)
    until_direct(t, a, two, one, 10, "there")
    one.connect(two, "back", 5, port=PORT + 1)
    until_direct(t, a, one, two, 20, "back")
    t.equal(sorted(map(len, links(t).values())), [1, 1], "links of each process")
    two.exchange(one, 1 << 20, "there")
    one.exchange(two, 1 << 20, "back")


@case(timeout=120)
def both_begin_at_once(t):
    a = host_with(t, vouch=BOTH)
    one, two = users(a)
    two.listen(PORT + 1)
    two.connect(one, "there", 5, port=PORT)
    one.connect(two, "back", 5, port=PORT + 1)

    def direct():
        two.ping(one, "there", rounds=3)
        one.ping(two, "back", rounds=3)
        return a.streams("direct") == 20
    t.until(direct, 60, "all to be direct")


@case(timeout=120)
def one_after_the_other(t):
    """A link outlives its streams; the next stream uses it again."""
    a = host_with(t, vouch=BOTH)
    server, client = users(a)
    for number in range(30):
        client.connect(server)
        until_direct(t, a, client, server, 2)
        if number % 2:
            client.do("close", group="s")
            server.do("close", group="s")
        else:
            server.do("close", group="s")
            client.do("close", group="s")
        t.until(lambda: a.streams() == 0, 10, "the stream to have ended")
    t.equal(a.figure("local_vouched_total"), 30, "pairs brought together")
    t.equal(a.figure("streams_ended_total"), 60, "streams that ended")


@case(timeout=120)
def a_new_process_in_place_of_another(t):
    a = host_with(t, vouch=BOTH)
    server, _ = users(a)
    for number in range(10):
        client = a.peer(user=BOB)
        client.connect(server)
        until_direct(t, a, client, server, 2)
        t.kill(client.proc)
        server.do("end", group="s")
        server.do("close", group="s")
        t.until(lambda: a.figure("processes") <= 2 and a.streams() == 0, 10,
                "the client to be gone")


@case(timeout=120)
def a_reload_takes_it_away(t):
    a = host_with(t, vouch=BOTH)
    server, client = users(a)
    client.connect(server, "old")
    until_direct(t, a, client, server, 2, "old")
    a.write_config(user="nobody")
    a.post("/v1/reload", {})
    client.connect(server, "new")
    t.until(lambda: client.ping(server, "new") and a.streams("tcp", "other-user") == 2, 20,
            "the new one to be refused")
    client.exchange(server, 5 << 20, "old")
    t.equal((a.streams("direct"), a.streams("tcp", "other-user")), (2, 2), "ends")
    a.write_config(user="nobody", vouch=BOTH)
    a.post("/v1/reload", {})
    client.connect(server, "newer")
    t.until(lambda: client.ping(server, "newer") and a.streams("direct") >= 4, 20,
            "the newer one to be direct")


@case(timeout=180)
def rsockd_dies_under_load(t):
    """Streams do not notice; streams that come later are known to the next rsockd."""
    a = host_with(t, vouch=BOTH)
    server, client = users(a)
    client.connect(server, "old", 5)
    until_direct(t, a, client, server, 10, "old")
    for number in range(3):
        load = [{"do": "exchange", "group": "old", "mine": mine, "theirs": theirs, "size": 8 << 20}
                for mine, theirs in ("ab", "ba")]
        client.tell(**load[0])
        server.tell(**load[1])
        t.kill(a.daemon)
        a.restart()
        client.hear()
        server.hear()
        group = f"new{number}"
        client.connect(server, group, 3)

        def direct():
            for name in ["old", *(f"new{earlier}" for earlier in range(number + 1))]:
                client.ping(server, name, rounds=3)
            return a.streams("direct") == 10 + 6 * (number + 1)
        t.until(direct, 30,
                f"new streams to meet, figures of the old ones to come back (round {number})")
        t.equal((a.figure("processes"), a.figure("listeners")), (2, 1), "what is known again")


def how_it_ends(t, a, host_plain):
    """What the peer sees of a process that is killed with streams in several states; by ring and by
    plain TCP.
    """
    shown = []
    for plain in (False, True):
        server, client = users(host_plain if plain else a, port=PORT, preload=not plain)
        for group in ("idle", "unread", "both"):
            client.connect(server, group)
        for group in ("idle", "unread", "both"):
            if plain:
                client.ping(server, group)
            else:
                t.until(lambda name=group: client.ping(server, name) and
                        a.streams("direct") >= 2 * (1 + ("idle", "unread", "both").index(name)), 20,
                        "direct")
        client.do("send", group="unread", size=1000)
        client.do("send", group="both", size=1000)
        server.do("send", group="both", size=1000)
        t.kill(client.proc)
        shown.append([server.do("end", group=group)["shown"]
                      for group in ("idle", "unread", "both")])
        t.kill(server.proc)
    return shown


@case(timeout=120)
def a_process_dies(t):
    """The peer sees what it would see over TCP; rsockd forgets the process, but not its counters.
    """
    a = host_with(t, vouch=BOTH)
    direct, plain = how_it_ends(t, a, a)
    t.equal(direct, plain, "the end as the peer sees it")
    t.until(lambda: a.figure("processes") == 0, 10, "the processes to be gone")
    # The kernel may still have a listening socket when the process's other sockets are gone.
    t.until(lambda: a.figure("listeners") == 0, 20, "its listening sockets to be forgotten")
    t.equal((a.figure("pending_lookups"), a.streams()), (0, 0), "what is left of them")


@case(timeout=120)
def counters_do_not_go_back(t):
    a = host_with(t, vouch=BOTH)
    before = {}
    for number in range(6):
        server, client = users(a)
        client.connect(server, n=3)
        until_direct(t, a, client, server, 6)
        client.exchange(server, 1 << 20)
        if number % 2:
            t.kill(client.proc)
        now = {name: value for name, value in a.metrics().items()
               if name.split("{")[0].endswith("_total")}
        t.check(all(now[name] >= value for name, value in before.items()),
                {name: (value, now[name]) for name, value in before.items() if now[name] < value})
        before = now
        for peer in (server, client):
            t.kill(peer.proc)
        t.until(lambda: a.figure("processes") == 0, 10, "the processes to be gone")
        for name, value in a.metrics().items():
            t.check(value >= before.get(name, 0), f"{name}: {value}, {before.get(name)} before")
    ring = a.figure('streams_bytes_total{path="ring"}')
    t.check(6 * 3 * 3 << 20 < ring < 6 * 3 * 5 << 20, f"{ring} bytes by ring")


@case(timeout=60)
def what_was_counted_is_not_counted_again(t):
    """A process family has one segment: a process that hands it over when the others have gone adds
    nothing that was counted before.
    """
    a = host_with(t, vouch=BOTH)
    server, client = users(a)
    client.connect(server)
    until_direct(t, a, client, server, 2)
    client.exchange(server, 4 << 20)
    for peer in (client, server):
        peer.do("close", group="s")
    t.until(lambda: a.figure("streams_ended_total") == 2, 10, "the stream to have ended")
    before = a.figure('streams_bytes_total{path="ring"}')
    parent = client.proc
    client.pid = client.do("background")["pid"]
    t.wait(parent)
    t.until(lambda: a.figure("processes") == 1, 10, "the parent to be gone")
    client.connect(server)
    until_direct(t, a, client, server, 2)
    t.equal(a.figure("streams_ended_total"), 2, "streams that ended")
    ring = a.figure('streams_bytes_total{path="ring"}') - before
    t.check(0 < ring < 1 << 20, f"{ring} bytes more by ring")


@case(timeout=60)
def in_the_background(t):
    """A server that listens, forks, and whose parent ends."""
    a = host_with(t, vouch=BOTH)
    server, client = users(a)
    parent = server.proc
    server.pid = server.do("background")["pid"]
    t.wait(parent)
    t.until(lambda: a.figure("processes") == 0, 10, "the parent to be gone")
    t.equal(a.figure("listeners"), 1, "what the child holds still")
    client.connect(server)
    until_direct(t, a, client, server, 2)
    client.exchange(server, 2 << 20)
    os.kill(server.pid, 9)
    t.until(lambda: (a.figure("processes"), a.figure("listeners")) == (1, 0), 10,
            "the child to be gone")


@case(timeout=120)
def who_listens_outlives_rsockd(t):
    """An idle server says nothing to the next rsockd, which still knows its listener if the kernel
    confirms it.
    """
    a = Lab(t, 1).hosts[0]
    config = {"rnics": [{"name": "rnic0", "addresses": [a.ip]}], "rules": [{"name": "everything"}],
              "services": [{"name": "some", "ports": [str(PORT)], "registered": True}]}
    a.start(**config)
    known = f"{a.local}.listeners"

    def verdict():
        return a.post("/v1/explain", {"side": "ap", "ip": a.ip, "port": PORT})["verdict"]

    def again():
        t.kill(a.daemon)
        a.restart()
    t.equal(verdict(), "no-listener", "nobody has registered")
    server = a.peer(user=ALICE).listen(PORT)
    t.until(lambda: verdict() == "map", 10, "it to have registered")
    t.until(lambda: os.stat(known).st_size > 24, 10, "it to be written")
    again()
    t.equal((a.figure("processes"), a.figure("listeners"), verdict()), (0, 1, "map"),
            "what the next one knows")
    server.do("close", group=f"l{PORT}")
    t.until(lambda: a.figure("listeners") == 0, 30, "a socket that is closed to be forgotten")
    t.equal(verdict(), "no-listener", "nobody is left")
    server.listen(PORT + 1)
    t.until(lambda: a.figure("listeners") == 1, 10, "another one")
    t.kill(server.proc)
    t.until(lambda: a.figure("listeners") == 0, 10, "its process to be gone")
    for nonsense in (b"", b"x" * 24, os.urandom(4096)):
        with open(known, "wb") as file:
            file.write(nonsense)
        again()
        t.equal(a.figure("listeners"), 0, f"listeners of {nonsense[:24]}")


@case(timeout=60)
def another_user_from_now_on(t):
    """A server that listens as one user and serves as another, as most servers do that root starts.
    """
    a = host_with(t, vouch=BOTH)
    server = a.peer(user=0).listen(PORT)
    client = a.peer(user=BOB)
    server.do("become", uid=ALICE)
    client.connect(server)
    until_direct(t, a, client, server, 2)


@case(timeout=60)
def one_with_a_filter(t):
    """In a process with a system call filter that denies one of librsock's calls, it makes none of
    its own; with one that allows them, streams are accelerated.
    """
    a = host_with(t, vouch=BOTH)
    server, client = a.peer(preload=False).listen(PORT), a.peer()
    client.do("confine", denied=MEMFD_CREATE)
    client.connect(server)
    client.ping(server, rounds=100)
    t.equal(a.figure("local_hellos_total"), 0, "processes that came")
    server, client = a.peer(user=ALICE).listen(PORT + 1), a.peer(user=BOB)
    client.do("confine")
    client.connect(server)
    until_direct(t, a, client, server, 2)


@case(timeout=60)
def a_child_beside_us(t):
    a = host_with(t, vouch=BOTH)
    server, client = users(a)
    client.connect(server, n=2)
    until_direct(t, a, client, server, 4)
    for _ in range(5):
        t.equal(server.do("fork_and_end", group="s")["status"], 0, "the child")
        client.ping(server)
    t.until(lambda: client.ping(server) and a.streams("direct") == 4, 20, "to be direct again")
    t.equal((a.figure("processes"), a.figure("listeners")), (2, 1), "what is left")


@case(timeout=60)
def one_user_with_two_places(t):
    """Two processes of a user that do not share /dev/shm, as in two containers: rsockd brings them
    together.
    """
    a = host_with(t)
    server = a.peer(user=ALICE, within=("unshare", "-m", "--propagation", "private", "sh", "-c",
                                        'mount -t tmpfs none /dev/shm && exec "$@"',
                                        "sh")).listen(PORT)
    client = a.peer(user=ALICE)
    client.connect(server)
    until_direct(t, a, client, server, 2)
    t.equal(a.figure("local_vouched_total"), 1, "pairs brought together")


@case(timeout=60)
def another_network_namespace(t):
    a, b = Lab(t, 2).hosts
    a.start(vouch=BOTH)
    server, client = b.peer(user=ALICE, env={"RSOCK_DAEMON": a.local}).listen(PORT), b.peer(
        user=BOB, env={"RSOCK_DAEMON": a.local})
    client.connect(server)
    until_direct(t, a, client, server, 2)
    t.check(a.figure("local_apart_total") >= 1, "not found by its first segment")
    client.exchange(server, 5 << 20)
    a.write_config(user="nobody", vouch=BOTH, **{"between-namespaces": "no"})
    a.post("/v1/reload", {})
    client.connect(server, "later")
    t.until(lambda: client.ping(server, "later") and a.streams("tcp", "other-netns") == 2, 20,
            "the reason")


@case(timeout=120)
def hundreds_of_streams_at_once(t):
    """More messages than a socket's queue holds: none is lost, and the pair has one link."""
    a = host_with(t, vouch=BOTH)
    server, client = users(a)
    client.connect(server, n=600)

    def direct():
        client.ping(server, rounds=2, most=200)
        return a.streams("direct") == 1200
    t.until(direct, 90, "1200 ends to be direct")
    t.equal(a.figure("local_hellos_total"), 2, "nobody was sent away")
    t.equal(sorted(map(len, links(t).values())), [1, 1], "links of each process")


# ---- the other end on another host ----

def remote(config, other, **client):
    """Two hosts, each with its rsockd (other None: the second has none), and a stream between them.
    """
    def run(t, wanted, accepting="remote"):
        a, b = Lab(t, 2).hosts
        a.start(**{"client": {"rto-first": "20ms", "max-sends": "3"}, **config(a)}, **client)
        if other:
            b.start(**other(b))
        server, client_ = b.peer(user=ALICE).listen(PORT), a.peer(user=BOB)
        began = time.monotonic()
        client_.connect(server)
        client_.ping(server, rounds=1)
        took = time.monotonic() - began
        t.until(lambda: client_.ping(server) and a.streams("tcp", wanted) == 1, 20,
                f"{wanted} at the connecting end")
        client_.exchange(server, 5 << 20)
        t.equal((a.streams("tcp", wanted), a.figure("local_remote_total") >= 1), (1, True),
                "and so it stays")
        if other:
            t.equal(b.streams("tcp", accepting), 1, "at the accepting end")
            t.until(lambda: all(device["promised"] == 0
                                for device in (*a.get("/v1/devices")["devices"],
                                               *b.get("/v1/devices")["devices"])), 20,
                    "what was promised to be given back")
        return took
    return run


def serves(host):
    return serving(host, services=[{"name": "it", "ports": [str(PORT)], "pm-time": "1s"}])


@case(timeout=60)
def another_host_mapped(t):
    remote(asking, serves)(t, "mapped")


@case(timeout=60)
def another_host_that_denies(t):
    remote(asking, serving)(t, "peer-policy")


@case(timeout=60)
def another_host_without_rsockd(t):
    took = remote(lambda host: asking(host, client={"rto-first": "500ms", "max-sends": "4"}),
                  None)(t, "no-pmsp")
    t.check(took < 0.4, f"connect() and the first bytes took {took} s: they waited for the mapper")


@case(timeout=60)
def another_host_that_policy_names_not(t):
    remote(lambda host: {"rnics": asking(host)["rnics"]}, serves)(t, "policy")


@case(timeout=60)
def another_host_and_no_device(t):
    remote(lambda host: {**asking(host), "rnics": []}, serves)(t, "no-rnic")


if __name__ == "__main__":
    sys.exit(main())
