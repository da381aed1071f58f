#!/usr/bin/python3
"""Tests of the guests themselves: their RDMA devices, the bad link, programs in them that are
preloaded or killed.
"""
import hashlib
import json
import os
import signal
import sys

import rdmalab
from lib.harness import Failure
from rdmalab import SCALE, case, lab, main

SIZE = 3_000_000


def serve_and_ask(server, client, program, *options):
    """Runs a perftest program on both guests."""
    words = [program, "-d", "rxe0", "-x", "1", "-F", *options]
    serving = server.start(words)
    server.listening(18515, handle=serving)
    client.run([*words, server.ip], expect=0)
    serving.wait(expect=0)
    return serving


def rping(server, client, address, times=10):
    serving = server.start(["rping", "-s", "-a", address, "-C", times, "-S", 4000, "-V"])
    # It listens with rdma_cm, which no table of /proc shows: the client tries again until the
    # server is there.
    server.until(lambda: client.run(["rping", "-c", "-a", address, "-C", times, "-S", 4000,
                                     "-V"]).rc == 0, 20 * SCALE,
                 f"rping to {address}")
    serving.wait(expect=0)


@case(200)
def devices(t):
    """Each guest has an active device with the large MTU, and GIDs of both address families."""
    for guest in lab(t).guests:
        t.equal(guest.port_state(), "4: ACTIVE", f"state of {guest.rnic} of {guest.name}")
        said = guest.sh("ibv_devinfo -v -d rxe0 | grep -E 'active_mtu|GID'; hostname")
        t.check("active_mtu:\t\t4096" in said, f"no MTU of 4096: {said}")
        t.check(f"::ffff:{guest.ip}" in said, f"no GID of {guest.ip}: {said}")
        t.check(f"fd09::{guest.number}" in said, f"no GID of {guest.ip6}: {said}")
        t.equal(said.split()[-1], guest.name, "its own name")


@case(200)
def processor(t):
    """The guests do not have the instruction that their emulator gets wrong (README.md)."""
    for guest in lab(t).guests:
        if guest.machine.emulated:
            flags = guest.sh("grep -m1 ^flags /proc/cpuinfo").split()
            t.equal(("cx8" in flags, "cx16" in flags), (True, False),
                    f"cx8 and cx16 in {guest.name}")


@case(300)
def connections(t):
    """rdma_cm, by both address families; the device's packet counters show that it was RDMA."""
    a, b = lab(t).guests
    before = [guest.hw_counters()["sent_pkts"] for guest in (a, b)]
    rping(b, a, b.ip)
    rping(a, b, a.ip6)
    for guest, had in zip((a, b), before):
        grown = guest.hw_counters()["sent_pkts"] - had
        t.check(grown >= 40, f"{guest.name} sent {grown} RDMA packets")


@case(400)
def perftest(t):
    """Writes with one and with many outstanding."""
    a, b = lab(t).guests
    serve_and_ask(b, a, "ib_write_lat", "-s", "8", "-n", "100")
    serve_and_ask(b, a, "ib_write_bw", "-s", "65536", "-n", "50")


@case(400)
def loss(t):
    """Lost packets are sent again, and the receiver counts the gaps; without netem there are none.
    """
    a, b = lab(t).guests

    def gaps(spec):
        # For RoCE alone, so that perftest's own TCP connection does not wait.
        a.netem(spec, only="roce" if spec else None)
        before = b.hw_counters()["out_of_seq_request"]
        serve_and_ask(b, a, "ib_write_bw", "-s", "65536", "-n", "50")
        return b.hw_counters()["out_of_seq_request"] - before
    t.check(gaps("loss 5%") > 0, "5 % of the packets were lost, and nobody noticed")
    a.netem(None)
    t.equal("netem" in a.sh("tc qdisc show dev eth0"), False, "netem is gone")


@case(300)
def roce_alone(t):
    """netem for RoCE alone does not affect TCP, and the other way round, by both address families.
    """
    a, b = lab(t).guests
    listening = b.start(["/usr/bin/python3", "-B", "-m", "http.server", "8000", "--bind", "::",
                         "-d", "/opt/rsock/test"])
    b.listening(8000, handle=listening)
    for only, address in (("roce", b.ip), ("tcp", b.ip), ("roce", b.ip6), ("tcp", b.ip6)):
        serving = b.start(["rping", "-s", "-a", address, "-P"])
        at = f"[{address}]" if ":" in address else address
        ways = {"tcp": lambda at=at: a.run(["curl", "-sS", "-m", 10, f"http://{at}:8000/app/app.h",
                                            "-o", "/dev/null"]).rc,
                "roce": lambda address=address: a.run(["timeout", "-s", "KILL", 10, "rping", "-c",
                                                       "-a", address, "-C", 1]).rc}
        for name, way in ways.items():
            b.until(lambda way=way: way() == 0, 20 * SCALE, f"{name} to {address}")
        a.netem("loss 100%", only=only)
        for name, way in ways.items():
            t.equal(way() == 0, name != only, f"{name} to {address} while {only} is lost")
        a.netem(None)
        serving.kill()
        serving.wait()


@case(400)
def link_down(t):
    """The port's state follows the link, by either way to take it down, and addresses come back."""
    a, b = lab(t).guests
    for down, up in ((lambda: b.link(False), lambda: b.link(True)),
                     (lambda: b.cable(False), lambda: b.cable(True))):
        down()
        b.until(lambda: b.port_state() == "1: DOWN", 10 * SCALE, "the port to be down")
        up()
        b.until(lambda: b.port_state() == "4: ACTIVE", 10 * SCALE, "the port to be up")
        rping(b, a, b.ip)
        rping(b, a, b.ip6)


@case(400)
def preloaded(t):
    """A program of each guest runs with librsock as another user, and contents are right."""
    a, b = lab(t).guests
    with open(t.file("content", SIZE), "rb") as file:
        data = file.read()
    b.write("/tmp/served/content", data)
    server = b.start(["/usr/bin/python3", "-B", "-m", "http.server", "8000", "-d", "/tmp/served"],
                     preload=True)
    b.listening(8000, handle=server)
    got = a.run(["curl", "-sS", f"http://{b.ip}:8000/content", "-o", "/tmp/got"], preload=True,
                user=1000, cwd="/")
    t.equal((got.rc, got.err), (0, ""), "curl")
    t.equal(hashlib.sha256(a.read("/tmp/got")).hexdigest(), hashlib.sha256(data).hexdigest(),
            "the content")
    t.stats.sample()
    for guest, side in ((b, "server"), (a, "client")):
        streams = [stream for stream in t.stats.of_port(8000, side)
                   if stream.pid // 10_000_000 == guest.number]
        t.check(streams, f"librsock of {guest.name} knows no stream")
        t.check(any(stream.tx_tcp_bytes + stream.rx_tcp_bytes + stream.tx_ring_bytes +
                    stream.rx_ring_bytes >= SIZE
                    for stream in streams), f"no stream of {guest.name} that moved it all")


@case(200)
def programs(t):
    """Input, output, statuses, signals, limits, files: what cases rely on."""
    guest = lab(t)[1]
    t.equal(guest.run(["sh", "-c", "cat; echo no >&2; exit 3"], stdin="yes").__dict__,
            {"rc": 3, "raw_out": b"yes", "out": "yes", "err": "no\n"}, "a program's end")
    killed = guest.start(["sleep", "1000"])
    killed.kill(signal.SIGKILL)
    t.equal(killed.wait(), -signal.SIGKILL, "the status of one that is killed")
    asked = guest.start(["cat"], stdin="pipe", stdout="pipe")
    for word in ("one", "two"):
        asked.send(word + "\n")
        t.equal(asked.readline(), word, "what came back")
    asked.send("", close=True)
    t.equal(asked.wait(), 0, "the end of its input")
    t.equal(guest.run(["bash", "-c", "ulimit -l; id -u; pwd; echo $A"], user=1000,
                      limits={"MEMLOCK": 65536}, cwd="/usr",
                      env={"A": "b"}).out.split(), ["64", "1000", "/usr", "b"],
            "limits, user, folder, environment")
    big = bytes(range(256)) * 4096
    guest.write("/tmp/folder/big", big)
    t.check(guest.read("/tmp/folder/big") == big, "a file, there and back")
    try:
        guest.run(["/no/such/program"])
        t.check(False, "a program that is not there was started")
    except OSError as error:
        t.check("/no/such/program" in str(error), f"which one: {error}")


@case(200)
def rsockd(t):
    """rsockd runs on both guests, and they map each other's service. By these devices, which are
    software, only where rsockd is told to use such.
    """
    a, b = lab(t).guests
    b.start(["/usr/bin/python3", "-B", "-m", "http.server", "8000", "-d",
             "/usr/share/common-licenses"])
    b.listening(8000)
    for soft, wanted in (("decline", ("not-asked", "soft-rnic")), ("use", ("mapped", "map"))):
        daemons = [guest.rsockd({"rnics": [{"name": "rnic0", "addresses": [guest.ip, guest.ip6]}],
                                 "soft-rdma": soft,
                                 "services": [{"name": "any", "ports": ["1-65535"]}],
                                 "rules": [{"name": "everything"}]})
                   for guest in (a, b)]
        answer = a.map(b, 8000)
        t.equal((answer["outcome"], answer["verdict"]), wanted,
                f"b's service, asked for by a: {answer}")
        for daemon in daemons:
            daemon.stop()


@case(600)
def by_a_shell(t):
    """Real hosts (real.py), for which these guests stand in: a stream between them, files of any
    size, and the end of a session.
    """
    hosts_file, folder = t.path("hosts.json"), t.path("hosts")
    shell = [sys.executable, "-B", os.path.join(os.path.dirname(os.path.abspath(rdmalab.__file__)),
                                                "rdmalab.py"), "shell", lab(t).folder]
    with open(hosts_file, "w") as file:
        json.dump([{"reach": [*shell, str(guest.number)], "ip": guest.ip, "ip6": guest.ip6,
                    "netdev": guest.netdev,
                    "rnic": guest.rnic} for guest in lab(t).guests], file)
    t.equal(rdmalab.command_hosts([folder, hosts_file]), 0, "hosts")
    real = rdmalab.Lab(folder).attach()
    try:
        a, b = real.guests
        data = os.urandom(SIZE)
        a.write("/tmp/large", data, 0o600)
        t.equal(hashlib.sha256(a.read("/tmp/large")).digest(), hashlib.sha256(data).digest(),
                "a file there and back")
        a.write("/tmp/none", b"")
        t.equal((a.read("/tmp/none"), a.sh("stat -c %a /tmp/large").strip()), (b"", "600"),
                "an empty one; a mode")
        server = b.start(["ib_write_bw", "-d", b.rnic, "-x", "1", "-F", "-s", "65536", "-n", "50"])
        b.listening(18515, handle=server)
        a.run(["ib_write_bw", "-d", a.rnic, "-x", "1", "-F", "-s", "65536", "-n", "50", b.ip],
              expect=0)
        server.wait(expect=0)
        sleeper = a.start(["sleep", "1000"])
        t.check(lab(t)[1].sh(f"cat /proc/{sleeper.pid}/comm").strip() == "sleep",
                "it runs in the guest")
        try:
            a.cable(False)
            said = "a cable was pulled"
        except Failure as failure:
            said = str(failure)
        t.check("only a guest's" in said, said)
    finally:
        real.detach()
    t.until(lambda: lab(t)[1].sh(f"cat /proc/{sleeper.pid}/comm 2>/dev/null || true").strip() !=
            "sleep", 60,
            "what the session started to end with it")
    for wrong in ('[]', '{"reach": []}', 'x', '[{"reach": "ssh h1"}]',
                  '[{"reach": ["false"], "ip": "", "ip6": "", "netdev": "", "rnic": ""}]'):
        with open(hosts_file, "w") as file:
            file.write(wrong)
        try:
            taken = rdmalab.command_hosts([t.path("wrong"), hosts_file]) == 0
        except Failure:
            taken = False
        t.check(not taken, f"taken: {wrong}")


def wedge(guest):
    guest.run(["sh", "-c", "echo c >/proc/sysrq-trigger"], timeout=30)


@case(600)
def panic(t):
    """The panic of a guest's kernel is noticed at once, and that guest boots anew while the other
    one goes on.
    """
    a, b = lab(t).guests
    marked = b.start(["sleep", "1000"])
    try:
        wedge(a)
        t.check(False, "a panic went unnoticed")
    except Exception as failure:
        t.check("Kernel panic" in str(failure), f"what it was: {failure}")
    lab(t).reboot(1)
    t.equal(marked.running(), True, "the other guest goes on")
    rping(b, a, b.ip)
    t.check(a.run(["/opt/rsock/bin/rsock", "--version"]).rc == 0, "the build is there again")


@case(600)
def once_more(t):
    """A case during which a guest's kernel died runs once more, in freshly booted guests."""
    a, b = lab(t).guests
    if "once_more" not in lab(t).deaths:
        a.write("/run/left-behind", "by the first try")
        wedge(b)
    t.equal(a.sh("ls /run/left-behind* || true").split(), ["/run/left-behind"],
            "the other guest went on")
    rping(b, a, b.ip)


if __name__ == "__main__":
    sys.exit(main())
