"""Shared by the measurement of a cluster: a network namespace of its own, etcd on three nodes, and
any number of rsockds, each a process with an address, folders and sockets of its own.

All of it is on one machine, so figures that count (requests, events, bytes, writes, CPU time,
memory) say more than times do. Nothing is left behind: the namespace ends with this process, and
every process ends with it, too.
"""
import base64
import ctypes
import http.client
import json
import os
import pathlib
import re
import resource
import select
import signal
import socket
import subprocess
import threading
import time

from lib.processes import LIBC, Failure, dies_with_parent, until
from mapper_lab import BIN, PAGE, TICKS

CLONE_NEWNET = 0x40000000
ETCDS = 3
CLIENT_PORT, PEER_PORT, PM_PORT, SERVICE = 2379, 2380, 3935, 5201
PREFIX = "/rsock/bench"
LEASE_S = 10  # rsockd's default
IN_FORCE = re.compile(rb"revision (\d+) of the cluster's document is in force")
TAIL_BYTES = 2000


def b64(text):
    return base64.b64encode(text.encode()).decode()


def ip(words):
    done = subprocess.run(["ip", "-batch", "-"], input=words.encode(), check=False,
                          capture_output=True)
    if done.returncode:
        raise Failure(f"ip: {done.stderr.decode().strip()}")


def etcd_address(number):
    return f"10.77.0.{number + 1}"


def agent_address(number):
    return f"10.77.{1 + number // 250}.{1 + number % 250}"


def enter_network(agents):
    """This process gets a network namespace of its own, with an address for each node and agent."""
    if os.geteuid() != 0:
        raise Failure("a network namespace needs root")
    if LIBC.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    addresses = [*map(etcd_address, range(ETCDS)), *map(agent_address, range(agents))]
    ip("link set lo up\n" +
       "".join(f"address add {one}/32 dev lo scope global\n" for one in addresses))


def allow_descriptors(wanted):
    """Raises the limit of this process, which etcd and the agents inherit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < wanted:
        raise Failure(f"{wanted} descriptors are needed, {most} are allowed (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Process:
    """A process that ends with this one."""

    def __init__(self, argv, **options):
        self.popen = subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL,
                                      preexec_fn=dies_with_parent(), **options)

    @property
    def pid(self):
        return self.popen.pid

    def runs(self):
        return self.popen.poll() is None

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident_bytes(self):
        return int(pathlib.Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * PAGE

    def private_bytes(self):
        lines = pathlib.Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def signal(self, number):
        self.popen.send_signal(number)

    def end(self):
        if self.runs():
            self.popen.kill()
        self.popen.wait(10)


class Etcd(Process):
    def __init__(self, folder, number):
        self.number, self.address = number, etcd_address(number)
        self.url = f"http://{self.address}:{CLIENT_PORT}"
        peers = [f"http://{etcd_address(one)}:{PEER_PORT}" for one in range(ETCDS)]
        log = open(f"{folder}/etcd{number}.log", "ab")
        super().__init__([
            "etcd", "--name", f"etcd{number}", "--data-dir", f"{folder}/etcd{number}",
            "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
            "--listen-peer-urls", peers[number], "--initial-advertise-peer-urls", peers[number],
            "--initial-cluster", ",".join(f"etcd{one}={url}" for one, url in enumerate(peers)),
            "--logger", "zap", "--log-level", "error"], stdout=log, stderr=log)
        log.close()

    def ask(self, method, path, body=None):
        link = http.client.HTTPConnection(self.address, CLIENT_PORT, timeout=20)
        link.request(method, path, json.dumps(body) if body is not None else None)
        answer = link.getresponse()
        text = answer.read().decode()
        link.close()
        if answer.status != 200:
            raise Failure(f"etcd: {answer.status} {text}")
        return text

    def do(self, path, **body):
        return json.loads(self.ask("POST", f"/v3/{path}", body))

    def answers(self):
        try:
            return bool(self.do("kv/range", key=b64("x")))
        except (OSError, Failure, http.client.HTTPException):
            return False

    def figures(self):
        """{name with labels: value} of its metrics."""
        lines = [line.rsplit(" ", 1) for line in self.ask("GET", "/metrics").splitlines()
                 if line and not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    def count(self, below):
        """How many keys begin with this."""
        end = below[:-1] + chr(ord(below[-1]) + 1)
        return int(self.do("kv/range", key=b64(below), range_end=b64(end),
                           count_only=True).get("count", 0))

    def leads(self):
        try:
            said = self.do("maintenance/status")
        except (OSError, Failure, http.client.HTTPException):
            return False
        return said.get("leader") == said["header"]["member_id"]


class Nodes:
    """etcd on three nodes."""

    def __init__(self, folder):
        self.all = [Etcd(folder, number) for number in range(ETCDS)]
        for node in self.all:
            until(node.answers, 30, "etcd to answer")

    def living(self):
        return [node for node in self.all if node.runs()]

    def leader(self):
        return until(lambda: next((node for node in self.living() if node.leads()), None), 30,
                     "a leader")

    def members(self):
        """How many members there are. While a thousand agents start etcd may be too busy to say."""
        def asked():
            try:
                return [self.living()[0].count(f"{PREFIX}/members/")]
            except (OSError, Failure, http.client.HTTPException):
                return None
        return until(asked, 120, "etcd to count the members")[0]

    def tally(self):
        """What the nodes have done so far, each by itself."""
        return [tally_of(node) for node in self.living()]

    def requests(self):
        """Requests of clients so far at the nodes that live. A watch counts when it begins."""
        return sum(requests_of(node.figures()) for node in self.living())


def requests_of(figures):
    return sum(value for name, value in figures.items()
               if name.startswith("grpc_server_started_total"))


def tally_of(node):
    f = node.figures()
    disk = dict(line.split(": ") for line in
                pathlib.Path(f"/proc/{node.pid}/io").read_text().splitlines())
    return {"cpu_s": node.cpu_s(), "resident_bytes": node.resident_bytes(),
            "requests": requests_of(f),
            "sent_bytes": f["etcd_network_client_grpc_sent_bytes_total"],
            "proposals": f["etcd_server_proposals_committed_total"],
            "puts": f.get("etcd_debugging_mvcc_put_total", f.get("etcd_mvcc_put_total", 0)),
            "events": f["etcd_debugging_mvcc_events_total"],
            "watches": f["etcd_debugging_mvcc_watcher_total"],
            "disk_bytes": int(disk["write_bytes"]), "descriptors": f["process_open_fds"],
            "db_bytes": f["etcd_mvcc_db_total_size_in_bytes"]}


def machine_busy_s():
    """Processor time that the machine has spent so far, on whatever."""
    first = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _, _, irq, softirq, steal = map(int, first[:8])
    return (user + nice + system + irq + softirq + steal) / TICKS


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Agent(Process):
    """An rsockd that is a member of the cluster. @more: keys of its section about that. @sessions:
    its RNIC's limit, or None; then the ledger of the cluster has nothing about it.
    """

    def __init__(self, folder, number, more, sessions):
        self.number, self.node = number, f"host{number}"
        self.address = agent_address(number)
        home = pathlib.Path(folder) / self.node
        (home / "state").mkdir(parents=True)
        self.control, self.local = f"{home}/control.sock", f"{home}/local.sock"
        urls = [f"http://{etcd_address(one)}:{CLIENT_PORT}" for one in range(ETCDS)]
        (home / "rsockd.conf").write_text(json.dumps({
            "node": self.node, "control": self.control, "local": self.local,
            "state": f"{home}/state", "listen": [f"{self.address}:{PM_PORT}"],
            "watch-devices": "no", "discover-devices": "no", "pmsp": {"rate": "0",
                                                                      "max-open": "200000"},
            "rnics": [{"name": "rnic0", "addresses": [self.address], "bandwidth": "25Gbit",
                       **({"sessions": sessions} if sessions else {})}],
            "rules": [{"name": "everything"}],
            "cluster": {"etcd": urls, "prefix": PREFIX, "lease": f"{LEASE_S}s", **more}}))
        super().__init__([BIN / "rsockd", "-c", home / "rsockd.conf"], stderr=subprocess.PIPE)
        os.set_blocking(self.popen.stderr.fileno(), False)
        self.in_force = {}  # revision: when
        self.said = b""

    def ask(self, method, path, body=None):
        link = UnixConnection(self.control)
        link.request(method, path, json.dumps(body) if body is not None else None)
        answer = link.getresponse()
        text = answer.read().decode()
        link.close()
        return answer.status, text

    def get(self, path):
        status, text = self.ask("GET", path)
        if status != 200:
            raise Failure(f"{self.node}: GET {path}: {status} {text}")
        return json.loads(text)

    def state(self):
        return self.get("/v1/status")["cluster"]

    def figure(self, name):
        _, text = self.ask("GET", "/metrics")
        return next(float(line.split()[1]) for line in text.splitlines()
                    if line.startswith(f"rsockd_cluster_{name} "))

    def hear(self):
        """Reads what it has logged. False: it has ended."""
        part = os.read(self.popen.stderr.fileno(), 1 << 16)
        now = time.monotonic()
        text = self.said + part
        for found in IN_FORCE.finditer(text):
            self.in_force.setdefault(int(found[1]), now)
        self.said = text[-TAIL_BYTES:]
        return bool(part)


class Agents:
    """All agents, and a thread that reads what they log, which has the time of each revision.
    @sessions: of the RNICs of the first @owners, which the ledger is about.
    """

    def __init__(self, folder, nodes, more, owners, sessions):
        self.folder, self.nodes, self.more = folder, nodes, more
        self.owners, self.sessions = owners, sessions
        self.all, self.by_fd, self.is_over = [], {}, False
        self.poll = select.epoll()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        while not self.is_over:
            for fd, _ in self.poll.poll(0.2):
                if not self.by_fd[fd].hear():
                    self.poll.unregister(fd)

    def start(self, upto, at_once):
        """Starts agents until there are so many; never more than at_once that are not members yet.
        Returns the seconds until all are members.
        """
        began, members = time.monotonic(), self.nodes.members()
        deadline = began + 60 + upto
        while members < upto:
            while len(self.all) < upto and len(self.all) - members < at_once:
                number = len(self.all)
                agent = Agent(self.folder, number, self.more,
                              self.sessions if number < self.owners else None)
                self.all.append(agent)
                self.by_fd[agent.popen.stderr.fileno()] = agent
                self.poll.register(agent.popen.stderr.fileno(), select.EPOLLIN)
            members = self.nodes.members()
            self.check()
            if time.monotonic() > deadline:
                raise Failure(f"{members} of {upto} agents are members")
            time.sleep(0.02)
        return time.monotonic() - began

    def check(self):
        for agent in self.all:
            if not agent.runs():
                raise Failure(f"{agent.node} ended with {agent.popen.returncode}: "
                              f"{agent.said.decode(errors='replace')}")

    def cpu_s(self):
        return sum(agent.cpu_s() for agent in self.all)

    def await_each(self, is_so, seconds, what):
        """Asks each agent until it is so. Returns when that was seen, an instant for each."""
        left, when = list(self.all), []
        deadline = time.monotonic() + seconds
        while left:
            still = []
            for agent in left:
                if is_so(agent):
                    when.append(time.monotonic())
                else:
                    still.append(agent)
            left = still
            if time.monotonic() > deadline:
                raise Failure(f"{len(left)} agents: not {what} in {seconds} s; one says "
                              f"{left[0].state()}")
            time.sleep(0.1 if left else 0)
        return when

    def push(self, text):
        """Returns the revision, by the agent that is asked first."""
        status, said = self.all[0].ask("POST", "/v1/policy/push", {"text": text})
        return json.loads(said)["revision"] if status == 200 else None

    def took(self, revision, since, seconds):
        """Seconds from then until each agent has put the revision in force, sorted."""
        until(lambda: all(revision in agent.in_force for agent in self.all), seconds,
              "all agents to run the revision")
        return sorted(agent.in_force[revision] - since for agent in self.all)

    def end(self):
        self.is_over = True
        self.reader.join()
        for agent in self.all:
            if agent.runs():
                agent.signal(signal.SIGKILL)
        for agent in self.all:
            agent.end()
            agent.popen.stderr.close()
        self.poll.close()
