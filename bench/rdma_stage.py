"""Two guests with RDMA devices (test/rdma) as a stage: transports, programs that always end, and
counters of the traffic. Used by rdma.py and the other experiments."""
import contextlib
import json
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass, field, replace

import stages
from stages import LIMIT, ROOT, TCP, Failure, Mode, Travel, travel_of

sys.path.append(str(ROOT / "test" / "rdma"))
import hosts  # noqa: E402
import rdmalab  # noqa: E402

GUEST = "/opt/rsock"  # the build's place in a guest
RSOCKET, SMC_R, RSOCK = (Mode(name, server=True, client=True)
                         for name in ("rsocket", "smc-r", "rsock"))
PRELOAD = {
    RSOCKET: f"{GUEST}/lib/rsocket_shim.so /usr/lib/x86_64-linux-gnu/rsocket/librspreload.so",
    SMC_R: f"{GUEST}/lib/smc_shim.so",
    RSOCK: f"{GUEST}/lib/librsock.so",
}
PEERS = (TCP, RSOCKET, SMC_R, RSOCK)
ASLEEP = Mode("limit asleep")  # bare verbs that wait for events, as all transports that sleep must
LIMITS = (LIMIT, ASLEEP)
# The receiver reads the sender's own buffer into its own (rdma/bulk.c): both registered for each
# message, or once for all.
GET_EACH, GET_ONCE = Mode("limit get each"), Mode("limit get once")
GETS = (GET_EACH, GET_ONCE)
MODES = (*PEERS, *LIMITS, *GETS)
KNOBS = ("RSOCK_RDMA_RING_KB", "RSOCK_SPIN_US")  # passed on to programs over rsock
SHARE = 0.9  # least share of packets, or bytes, that must have gone by RDMA

# Opening a device takes as long as libibverbs needs to load all installed drivers, so only rxe's is
# kept.
SET_UP = """
find /etc/libibverbs.d -name '*.driver' ! -name rxe.driver -delete
modprobe -a smc smc_diag
smcnet setup {netdev} {rnic} RSOCK-BENCH
mkdir -p /run/bench
"""
SERVE_S, END_S = 60, 20  # time limits: for a server to listen; for it to end


def rsockd_config(guest):
    """Configuration at librsock's default socket; rxe is a software RDMA device, which has to be
    allowed explicitly."""
    guest.sh("mkdir -p /run/rsock")
    return {"local": "/run/rsock/local.sock", "soft-rdma": "use",
            "rnics": [{"name": guest.rnic, "addresses": [guest.ip, guest.ip6],
                       "bandwidth": "10Gbit", "sessions": 10000}],
            "services": [{"name": "any", "ports": ["1-65535"]}], "rules": [{"name": "everything"}]}


@dataclass
class Witness:
    """What both kernels counted during a turn, independently of the library: packets that the RDMA
    devices sent, segments with data that TCP sent."""

    rdma_packets: int = 0
    tcp_segments: int = 0
    smc_connections: int = 0  # both ends
    smc_fallbacks: int = 0

    def __sub__(self, before):
        return Witness(*(now - then for now, then in zip(asdict(self).values(),
                                                         asdict(before).values())))

    def __add__(self, other):
        return Witness(*(one + two for one, two in zip(asdict(self).values(),
                                                       asdict(other).values())))

    def share(self):
        packets = self.rdma_packets + self.tcp_segments
        return self.rdma_packets / packets if packets else 0.0


def tcp_segments(netstat):
    """Segments with data that TCP sent, from /proc/net/netstat: pairs of lines, names and numbers.
    """
    lines = netstat.splitlines()
    for names, numbers in zip(lines[::2], lines[1::2]):
        found = dict(zip(names.split(), numbers.split()))
        if "TCPOrigDataSent" in found:
            return int(found["TCPOrigDataSent"])
    raise Failure("/proc/net/netstat says nothing of TCPOrigDataSent")


def accelerated(mode, witness, travel):
    """Did this turn use the transport that it is to measure?"""
    if mode is TCP:
        return witness.share() <= 1 - SHARE
    if witness.share() < SHARE:
        return False
    if mode is SMC_R:
        return witness.smc_connections > 0 and witness.smc_fallbacks == 0
    return travel.direct > 0 if mode is RSOCK else True


@contextlib.contextmanager
def bare_guests(**options):
    """Two guests with the build and nothing else: booted for this, or those that RSOCK_RDMA_LAB
    names. Yields the lab. options: those of Lab.boot()."""
    up = os.environ.get("RSOCK_RDMA_LAB")
    lab = rdmalab.Lab(up)
    try:
        if up:
            lab.attach()
        else:
            lab.boot(**options)
        lab.sync(str(stages.BUILD))
        for guest in lab.guests:
            guest.begin_case()
        yield lab
        for guest in lab.guests:
            guest.end_case()
    finally:
        if up:
            lab.detach()
        else:
            lab.stop()


class Guests:
    """Two guests, booted once, with what every transport needs. Leaving ends them."""

    def __enter__(self):
        self.lab = rdmalab.Lab()
        self.port, self.files = 20000, 0
        try:
            self.lab.boot()
            self.lab.sync(str(stages.BUILD))
            for guest in self.lab.guests:
                guest.begin_case()
                guest.sh(SET_UP.format(netdev=guest.netdev, rnic=guest.rnic))
                guest.rsockd(rsockd_config(guest))
        except BaseException:
            self.lab.stop()
            raise
        self.asks, self.serves = self.lab.guests
        return self

    def __exit__(self, *_):
        self.lab.stop()

    def next_port(self):
        self.port += 1
        return self.port

    def next_file(self):
        self.files += 1
        return f"/run/bench/{self.files}.stat"

    def kernel(self):
        return self.serves.run(["uname", "-r"], expect=0).out.strip()

    def witness(self, smc):
        """smc: also reads the SMC module's counters, for which a program runs in each guest."""
        seen = Witness()
        for guest in self.lab.guests:
            seen.rdma_packets += guest.hw_counters()["sent_pkts"]
            seen.tcp_segments += tcp_segments(guest.read("/proc/net/netstat").decode())
            if smc:
                counted = json.loads(guest.run(["smcnet", "stats"], expect=0).out)
                seen.smc_connections += counted["connections"]
                seen.smc_fallbacks += counted["fallbacks"]
        return seen


@dataclass
class Turn:
    """One measurement: a fresh server on one guest, a fresh client on the other. Leaving ends them.
    """

    guests: Guests
    mode: Mode
    servers: list = field(default_factory=list)
    travel: Travel = field(default_factory=Travel)
    witness: Witness = None

    def __enter__(self):
        self.port = self.guests.next_port()
        self.host = self.guests.serves.ip
        self.before = self.guests.witness(self.mode is SMC_R)
        return self

    def __exit__(self, failed, *_):
        try:
            for server in self.servers:
                self.end(server)
        except Failure:
            if not failed:
                raise
        if not failed:
            self.witness = self.guests.witness(self.mode is SMC_R) - self.before

    def env(self):
        env = {}
        if self.mode in PRELOAD:
            env["LD_PRELOAD"] = PRELOAD[self.mode]
        if self.mode is RSOCK:
            env |= {knob: os.environ[knob] for knob in KNOBS if knob in os.environ}
            env["RSOCK_STAT_FILE"] = self.guests.next_file()
        return env

    def end(self, server):
        if server.running():
            server.kill(signal.SIGTERM)
            with contextlib.suppress(Failure):
                server.wait(END_S)
        if server.running():
            server.kill(signal.SIGKILL)
            server.wait(END_S)
        if server.rc < 0 and -server.rc not in (signal.SIGTERM, signal.SIGKILL):
            raise Failure(f"{server.argv[0]} ended by {signal.Signals(-server.rc).name}")

    def server(self, *argv, ready):
        """Starts a server, and waits until it prints that text (sockets of other transports are in
        no table of the kernel)."""
        server = self.guests.serves.start(argv, env=self.env())
        self.servers.append(server)

        def said():
            if ready in server.out():
                return True
            if not server.running():
                # A crashing program prints a page of addresses, so its output is not quoted.
                words = f": {last_words(server)}" if server.rc > 0 else ""
                raise Failure(f"{argv[0]} {ended(server.rc)} before it listened{words}")
            return False
        self.guests.serves.until(said, SERVE_S, f"{argv[0]} to listen")

    def client(self, *argv, timeout_s, settle_s=0):
        """Runs a client to its end and returns its output. Traffic of its first settle_s seconds is
        not measured, so it is not counted."""
        env = self.env()
        client = self.guests.asks.start(argv, env=env)
        try:
            if settle_s:
                time.sleep(settle_s)
                # Connections are counted when they are made, so these counters keep their earlier
                # values.
                self.before = replace(self.guests.witness(False),
                                      smc_connections=self.before.smc_connections,
                                      smc_fallbacks=self.before.smc_fallbacks)
            client.wait(timeout_s)
        except Failure:
            self.guests.asks.machine.check()
            client.kill()
            served = "; ".join(last_words(server) for server in self.servers)
            raise Failure(f"{argv[0]} did not end within {timeout_s:.0f} s; the server: "
                          f"{served}") from None
        if client.rc:
            raise Failure(f"{argv[0]} {ended(client.rc)}: {last_words(client)}")
        if "cannot be preloaded" in client.err():
            raise Failure(f"{argv[0]} ran without the library: {client.err()[:400]}")
        if self.mode is RSOCK:
            with contextlib.suppress(FileNotFoundError):
                text = self.guests.asks.read(env["RSOCK_STAT_FILE"]).decode()
                self.travel.add(travel_of(text.splitlines(), self.port))
        return client.out()


def ended(rc):
    return f"was ended by {signal.Signals(-rc).name}" if rc < 0 else f"ended with status {rc}"


def last_words(program):
    """The last lines joined into one, without duplicates."""
    lines = dict.fromkeys(line.strip() for line in f"{program.out()}\n{program.err()}".split("\n"))
    return " / ".join(line for line in lines if line)[-120:]

