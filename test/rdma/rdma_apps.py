#!/usr/bin/python3
"""Runs the cases of test/app with their streams over RDMA verbs. Both sides are in one guest, whose
two devices send each other real packets. Each case runs on kernel TCP, then preloaded, and the
transcripts are compared. A case of this script is a family of cases there.

Processes are told not to share memory (RSOCK_SHM=0), and rsockd asks itself, as it would ask
another host's rsockd.
"""
import glob
import os
import re
import sys

from rdmalab import HERE, case, lab, main
from guest import ROOT
from hosts import LOCAL

SERVER, SERVER6 = "10.5.0.2", "fd05::2"
CLIENT, CLIENT6 = "10.5.0.1", "fd05::1"
PATIENCE = 4  # a guest is slower than this machine
WARM_S = 30  # less than PATIENCE times 10: some cases wait while others warm up in vain
AT_ONCE = 3  # most of a case is waiting
# A case that differs beside others has to be the same so many times alone: a guest that is busy for
# seconds exceeds times that neither the library nor a program can know (packets that are given up,
# patience of tests). So few cases of a family may.
ALONE, BESIDE_OTHERS = 3, 2
# Cases that may differ over verbs, by the reason; docs/gaps.md says more. Some of them are races,
# and do not always differ.
GAPS = {
    "a set in a set is told ready by what its link's completion channel has, though there is "
    "nothing":
        "epollnest.oneshot epollnest.joins_inside epollnest.over_fork epollnest.child_nests",
    "there is no RDMA device behind 127.0.0.2": "net.other_loopback",
    "the reader knows of the end by the ring, and the kernel's FIN may be behind it":
        "opts.tcp_info",
    "a process was killed, and whether all that it had sent has arrived can no longer be known":
        "reset.sent_to_the_killed reset.sent_to_the_shut",
    "one process that has both ends stays on TCP": "demote.nothing_else_to_do",
    "what comes from another host has no time of its put, and such a stream stays on TCP":
        "stamps.every_length stamps.ns stamps.reporting_of_listener stamps.off_again "
        "stamps.reporting stamps.us_new stamps.new_of_listener stamps.ns_new stamps.us "
        "stamps.of_listener",
    "the services count to a number at which a stream between hosts is not on the ring yet":
        "std.becomes std.moved std.with_2 std.smashed std.program std.error_on_2 std.read_write "
        "std.aborts std.child",
}
# Cases that are not run, by the reason.
LEFT_OUT = {
    "3,000 rings are more than a guest's memory, and take too long to be filled; rdma_scale.py has "
    "a thousand": "many.many_streams",
}
NO_RINGS = ("other",)  # families whose sockets are of other kinds
# A program that writes 3 MB which the other side does not read hangs on kernel TCP, too, where a
# segment is not as large as on lo. It does not hang with so much buffer. The family "ages" was
# completed with it, too.
ROOM = {"bulk": 4 << 20, "ages": 4 << 20}
USUAL_ROOM = 16384
# Families that were run completely; the others run by name, or with RSOCK_RDMA_LONG=1.
SETTLED = ("io", "fill", "flags", "sendflags", "opts", "ioctl", "timeouts", "ends", "ready",
           "close", "reset", "leave", "poll", "epoll", "epollset", "epollnest",
           "childset", "heir", "threads", "waiting", "before", "net", "sig", "fds",
           "files", "demote", "children", "exit", "other", "proc", "pool", "fortify",
           "exec", "pass", "stdio", "workers", "uring", "bulk", "ages", "large", "many")
# A connection to one device's address comes from the other device's, though all of it is on one
# host.
ADDRESSES = f"""
for i in 0 1; do
	ip address replace fd05::$((i + 1))/64 dev v$i nodad
done
ip neighbour replace {SERVER6} lladdr $(cat /sys/class/net/v1/address) dev v0
ip neighbour replace {CLIENT6} lladdr $(cat /sys/class/net/v0/address) dev v1
ip route replace table local local {SERVER} dev v1 proto kernel scope host src {CLIENT}
ip -6 route replace table local local {SERVER6} dev v1 proto kernel metric 0 src {CLIENT6}
"""


def configuration():
    return {"local": LOCAL, "soft-rdma": "use", "pmsp": {"ask-time": "7s"},
            "rnics": [{"name": "ra", "addresses": [CLIENT, CLIENT6], "bandwidth": "10Gbit",
                       "sessions": 10000},
                      {"name": "rb", "addresses": [SERVER, SERVER6], "bandwidth": "10Gbit",
                       "sessions": 10000}],
            "services": [{"name": "any", "ports": ["1-65535"]}],
            "rules": [{"name": "all", "when": {"peers": ["10.5.0.0/16", "fd05::/16"]}}]}


def ready(t):
    """The guest, with rsockd and both devices set up."""
    guest = lab(t)[1]
    if "ra" not in guest.sh("ls /sys/class/infiniband 2>/dev/null || true").split():
        guest.two_devices()
        guest.sh(ADDRESSES)
    guest.sh("mkdir -p /run/rsock")
    guest.rsockd(configuration())
    return guest


def packets(guest):
    return guest.hw_counters("ra")["sent_pkts"], guest.hw_counters("rb")["sent_pkts"]


def gaps(family):
    """Cases that may differ: those that may differ on one host, and those of GAPS."""
    with open(os.path.join(HERE, "..", "app", "gaps.cmake")) as file:
        names = re.findall(r"app_(\w+\.\w+)", file.read())
    return {name for name in names + [name for cases_ in GAPS.values() for name in cases_.split()]
            if name.startswith(f"{family}.")}


def outcome(text):
    """{case: did it pass?}"""
    return {name: word == "ok"
            for name, word in re.findall(r"^(\w+) +(ok|FAIL)  \d+ ms$", text, re.M)}


def cases(guest, program):
    left_out = {name for names in LEFT_OUT.values() for name in names.split()}
    names = [line.split()[0] for line in guest.run([program, "--list"], expect=0).out.splitlines()]
    return [name for name in names
            if f"{os.path.basename(program)[len('app_'):]}.{name}" not in left_out]


def together(guest, program, env, names):
    """Runs these cases, AT_ONCE at a time. {case: did it pass?}"""
    running = [guest.start([program, "--mode", "both", *names[i::AT_ONCE]], env=env)
               for i in range(AT_ONCE) if names[i:]]
    found = {}
    for handle in running:
        handle.wait(850)
        print(handle.out(), handle.err(), sep="", flush=True)
        found.update(outcome(handle.out()))
    return found


def run(t, guest, family, names=()):
    """names: of cases; () for all of them, or those of APP_CASES."""
    env = {"LIBRSOCK": lab(t).library, "RSOCK_TOOL": lab(t).tool, "RSOCK_SHM": 0,
           "APP_HOST": SERVER, "APP_HOST6": SERVER6,
           "APP_SCALE": PATIENCE, "APP_WARM_S": WARM_S,
           "RSOCK_LOG": os.environ.get("RSOCK_LOG", "error"),
           "RSOCK_LOG_FILE": "/run/case/librsock.log"}
    guest.sh(f"sysctl -qw net.ipv4.tcp_wmem='4096 {ROOM.get(family, USUAL_ROOM)} 4194304'")
    before = packets(guest)
    program = f"{ROOT}/bin/app_{family}"
    names = names or os.environ.get("APP_CASES", "").split()
    asked = names or cases(guest, program)
    found = together(guest, program, env, asked)
    t.equal(sorted(found), sorted(asked), "cases that came to an end")
    known = {name for name in gaps(family) if name.split(".")[1] in found}
    differ = [name for name, good in found.items() if not good and f"{family}.{name}" not in known]
    t.check(len(differ) <= BESIDE_OTHERS, f"differ: {differ}")
    for name in differ:
        alone = [together(guest, program, env, [name])[name] for _ in range(ALONE)]
        print(f"{family}.{name} differed beside others; alone {alone.count(True)} of {ALONE} the "
              "same", flush=True)
        found[name] = all(alone)
    sent = [now - had for had, now in zip(before, packets(guest))]
    print(f"{family}: {len(found)} cases, {sum(found.values())} the same, packets {sent}",
          flush=True)
    # A rail may begin at either device: rsockd takes the one that has less to do.
    t.check(names or family in NO_RINGS or sum(sent) > len(found),
            f"few packets: {sent}")
    wrong = {f"{family}.{name}" for name, good in found.items() if not good}
    print(f"do not differ, though they may: {sorted(known - wrong)}", flush=True)
    t.check(wrong <= known, f"differ: {sorted(wrong - known)}")


def register(family):
    def of_family(t):
        run(t, ready(t), family)
    of_family.__name__ = family
    case(900, long=family not in SETTLED)(of_family)


FAMILIES = set()
for path in glob.glob(os.path.join(HERE, "..", "app", "*.c")):
    with open(path) as file:
        if re.search(r"^CASE\(", file.read(), re.M):
            FAMILIES.add(re.match(r"[a-z]+", os.path.basename(path))[0])  # <family>.c, <family>_*.c
for name in sorted(FAMILIES):
    register(name)


@case(300)
def tcp_is_late(t):
    """The ring's end is there before the kernel's FIN: what poll reports of it is the same."""
    guest = ready(t)
    guest.netem("delay 20ms", only="tcp", netdev="lo")
    try:
        run(t, guest, "close", ["half_close_client", "half_close_server", "close_eof"])
    finally:
        guest.netem(None, netdev="lo")


if __name__ == "__main__":
    sys.exit(main(guests=1, vcpus=2))
