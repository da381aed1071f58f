"""A guest as a test case sees it: programs, files, its link, its devices. Everything is an order to
the agent in the guest (inside/agent.py), sent over one of its ports. rdmalab.py makes the guests.

Another kind of host can take its place (real.py). It needs a Channel, that is a byte stream to an
agent that runs on it as root, and a machine with check(), which raises Failure if the host is gone,
reset(), cable(), share (is there a folder that both see?) and devices (lines for bash that restore
its RDMA devices).
"""
import base64
import email
import errno
import json
import os
import random
import shutil
import signal
import socket
import threading
import time

from lib.daemon import Daemon
from lib.processes import CRASHES, Failure, ports_in

# after so many seconds of waiting, check_others() looks whether another guest is gone
OTHERS_S = 15
SCALE = 20  # a guest is slower than this machine, at most by this factor
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = "/opt/rsock"  # the build under test, in a guest: bin, lib, test
CASE = "/run/case"
PIECE = 1 << 19  # bytes of a file in one message, where there is no share


class Result:
    """How a program ended. rc: its status, -N if signal N ended it; out, err: text; raw_out: bytes.
    """

    def __init__(self, rc, out, err):
        self.rc, self.raw_out = rc, out
        self.out, self.err = out.decode(errors="replace"), err.decode(errors="replace")

    def __repr__(self):
        return f"rc {self.rc}, out {self.out[-2000:]!r}, err {self.err[-2000:]!r}"


class Channel:
    """Requests to the agent and its answers, over a socket. Any thread may ask. Owns the socket."""

    def __init__(self, sock, check, others, seconds):
        self.sock, self.check, self.others = sock, check, others
        self.changed = threading.Condition()
        self.answers, self.handles, self.early = {}, {}, {}
        self.number = random.getrandbits(40)
        self.gone = False
        self.writing = threading.Lock()
        threading.Thread(target=self.listen, daemon=True).start()
        word = f"{random.getrandbits(64):x}"
        self.write(b"\n")
        self.boot = self.ask("hello", seconds, word=word)["boot"]

    def listen(self):
        rest = b""
        try:
            while data := self.sock.recv(1 << 16):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self.take(line)
        except OSError:
            pass
        with self.changed:
            self.gone = True
            self.changed.notify_all()

    def take(self, line):
        try:
            message = json.loads(line)
        except ValueError:
            return  # from an earlier session
        with self.changed:
            if "event" in message:
                handle = self.handles.get(message["handle"])
                if handle:
                    handle.take(message)
                else:
                    self.early.setdefault(message["handle"], []).append(message)
            else:
                self.answers[message.get("id")] = message
            self.changed.notify_all()

    def until(self, condition, seconds, what):
        """Waits for the condition, and checks that the guest is still there."""
        deadline = time.monotonic() + seconds
        patience = time.monotonic() + OTHERS_S
        while True:
            with self.changed:
                value = condition()
                if value:
                    return value
                if not self.gone:
                    self.changed.wait(min(0.2, max(0.001, deadline - time.monotonic())))
            self.check()
            if self.gone:
                raise Failure(f"the agent's port closed while waiting for {what}")
            if time.monotonic() > patience:
                self.others()
            if time.monotonic() > deadline:
                raise Failure(f"waited {seconds:.0f} s for {what}")

    def write(self, data):
        """Writes to the agent; a port that is closed by now is a Failure."""
        try:
            self.sock.sendall(data)
        except OSError as error:
            self.check()
            raise Failure(f"the agent's port: {error}") from None

    def ask(self, op, seconds=60, **order):
        with self.writing:
            self.number += 1
            number = self.number
            self.write(json.dumps({"op": op, "id": number, **order}).encode() + b"\n")
        answer = self.until(lambda: self.answers.pop(number, None), seconds,
                            f"the agent's answer to {op}")
        if "error" in answer:
            if answer.get("errno") == errno.ENOENT:
                raise FileNotFoundError(answer["error"])
            raise OSError(answer.get("errno") or 0, f"{op}: {answer['error']}")
        return answer

    def adopt(self, handle):
        with self.changed:
            self.handles[handle.number] = handle
            for message in self.early.pop(handle.number, []):
                handle.take(message)

    def close(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.sock.close()


class Handle:
    """One program in a guest. rc is None while it runs."""

    def __init__(self, guest, answer, argv, preload):
        self.guest, self.argv, self.preloaded = guest, argv, preload
        self.number, self.pid, self.base = answer["handle"], answer["pid"], answer["base"]
        self.rc, self.expected = None, set()
        self.piped = {"out": b"", "err": b""}
        self.ended = {"out": False, "err": False}

    def take(self, message):
        which = message["event"]
        if which == "exit":
            self.rc = message["rc"]
        elif message.get("end"):
            self.ended[which] = True
        else:
            self.piped[which] += base64.b64decode(message["data"])

    def describe(self):
        way = "preloaded" if self.preloaded else "plain"
        return f"{self.guest.name} [{way}] pid {self.pid}: {' '.join(self.argv)[:300]}"

    def running(self):
        return self.rc is None

    def wait(self, timeout=60 * SCALE, expect=None):
        """Returns its status. Failure if that is not expect, where expect is given, or if it
        crashed without having been told to.
        """
        self.guest.channel.until(lambda: self.rc is not None, timeout,
                                 f"the end of {self.describe()}")
        if expect is not None and self.rc != expect:
            raise Failure(f"{self.describe()}: ended with {self.rc}, expected "
                          f"{expect}\n{self.tail()}")
        return self.rc

    def result(self, timeout=60 * SCALE):
        self.wait(timeout)
        return Result(self.rc, self.raw("out"), self.raw("err"))

    def kill(self, sig=signal.SIGKILL):
        self.expected.add(int(sig))
        return self.guest.channel.ask("kill", handle=self.number, sig=int(sig))["sent"]

    def stop(self, sig=signal.SIGTERM, timeout=15 * SCALE):
        self.kill(sig)
        return self.wait(timeout)

    def raw(self, which):
        if self.piped[which] or self.ended[which]:
            return self.piped[which]
        try:
            return self.guest.read(f"{self.base}.{which}")
        except FileNotFoundError:
            return b""

    def out(self):
        return self.raw("out").decode(errors="replace")

    def err(self):
        return self.raw("err").decode(errors="replace")

    def tail(self, shown=1500):
        parts = [f"    {label}: {text.strip()[-shown:]}"
                 for label, text in (("stdout", self.out()), ("stderr", self.err()))
                 if text.strip()]
        return "\n".join(parts)

    # ---- with pipes: start(stdin="pipe", stdout="pipe") ----
    def send(self, data, close=False):
        data = data.encode() if isinstance(data, str) else data
        self.guest.channel.ask("input", handle=self.number, data=base64.b64encode(data).decode(),
                               close=close)

    def readline(self, timeout=60 * SCALE):
        """The next line of its output, without the newline."""
        self.guest.channel.until(lambda: b"\n" in self.piped["out"] or self.ended["out"], timeout,
                                 f"a line of {self.describe()}")
        line, newline, self.piped["out"] = self.piped["out"].partition(b"\n")
        if not newline:
            raise Failure(f"{self.describe()}: ended with {self.rc}: {self.err()}")
        return line.decode()


class Guest(Daemon):
    """One guest. ip, ip6: on the first link, ip_1 on the second; rnic: its first RDMA device, on
    netdev.
    """

    def __init__(self, lab, number, machine):
        self.lab, self.number, self.machine = lab, number, machine
        self.name = f"guest{number}"
        self.ip, self.ip6, self.netdev, self.rnic = (f"10.9.0.{number}", f"fd09::{number}", "eth0",
                                                     "rxe0")
        self.ip_1, self.netdev_1 = f"10.9.1.{number}", "eth1"
        self.channel, self.handles, self.daemon, self.config = None, [], None, {}
        self.started = 0
        self.unplugged = set()  # links whose cable is pulled

    def connect(self, seconds):
        """Opens a session with the agent of a guest that boots, or is up."""
        if self.channel:
            self.channel.close()
        self.channel = Channel(self.machine.port(), self.machine.check, self.check_others, seconds)
        self.handles = []

    def check_others(self):
        """Checks the other guests: the case may wait for one of them that is gone."""
        for guest in self.lab.guests:
            if guest is not self:
                guest.machine.check()

    # ---- programs ------------------------------------------------------------------------------
    def start(self, argv, *, preload=False, env=None, user=None, stdin=None, limits=None,
              **options):
        """Starts a program. user: a number; stdin: None (nothing), bytes, text, or "pipe"; stdout,
        stderr: "file" or "pipe"; limits: {"MEMLOCK": bytes}; cwd; keep=True: it outlives this lab's
        session.
        """
        argv = [str(word) for word in argv]
        env = {key: str(value) for key, value in (env or {}).items()}
        if preload:
            self.started += 1
            env = {**self.preloading(f"{self.started:03d}-{os.path.basename(argv[0])}"), **env}
        if stdin is not None and stdin != "pipe":
            stdin = base64.b64encode(stdin.encode() if isinstance(stdin, str) else stdin).decode()
        order = {"argv": argv, "env": env, "user": user, "stdin": stdin, "limits": limits,
                 **options}
        answer = self.channel.ask("start", **order)
        handle = Handle(self, answer, argv, preload)
        self.channel.adopt(handle)
        self.handles.append(handle)
        return handle

    def run(self, argv, *, timeout=60 * SCALE, expect=None, **options):
        """Runs a program to its end and returns a Result. If it takes longer it is killed
        (Failure).
        """
        handle = self.start(argv, **options)
        try:
            handle.wait(timeout, expect)
        except Failure:
            if handle.running():
                handle.kill()
            raise
        return handle.result()

    def sh(self, script, **options):
        """Runs lines of bash, which must succeed; returns what they print."""
        return self.run(["/bin/bash", "-ec", script], **{"expect": 0, **options}).out

    def preloading(self, name):
        return {"LD_PRELOAD": self.lab.library, "RSOCK_STAT_FILE": f"{CASE}/stat/{name}.ndjson",
                "RSOCK_LOG": os.environ.get("RSOCK_LOG", "error"),
                "RSOCK_LOG_FILE": f"{CASE}/librsock.log"}

    def listening(self, port, timeout=15 * SCALE, handle=None):
        """Waits until a program listens on a TCP port."""
        def listens():
            if handle and not handle.running():
                raise Failure(f"{handle.describe()}: ended with {handle.rc} before it "
                              f"listened\n{handle.tail()}")
            return any(port in ports_in(self.read(table).decode())
                       for table in ("/proc/net/tcp", "/proc/net/tcp6"))
        self.until(listens, timeout, f"somebody to listen on port {port} of {self.name}")

    def until(self, condition, timeout, what):
        """Tests a condition repeatedly, until a deadline."""
        deadline, pause = time.monotonic() + timeout, 0.02
        while True:
            self.machine.check()
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise Failure(f"waited {timeout:.0f} s for {what}")
            time.sleep(pause)
            pause = min(0.5, pause * 2)

    # ---- files ---------------------------------------------------------------------------------
    def read(self, path):
        """Bytes of a file, of /proc and /sys too."""
        answer = self.channel.ask("read", path=path, seconds=60 * SCALE)
        if "share" not in answer:
            return base64.b64decode(answer["data"])
        with self.lab.shared(answer["share"]) as (copy, _):
            with open(copy, "rb") as file:
                return file.read()

    def write(self, path, data, mode=0o644):
        """Writes a new file, and makes its folders."""
        data = data.encode() if isinstance(data, str) else data
        if not self.machine.share:
            self.write_pieces(path, data, mode)
            return
        with self.lab.shared() as (copy, name):
            with open(copy, "wb") as file:
                file.write(data)
            self.channel.ask("write", path=path, share=name, mode=mode, seconds=60 * SCALE)

    def write_pieces(self, path, data, mode):
        for at in range(0, len(data), PIECE) or [0]:
            self.channel.ask("write", path=path, mode=mode,
                             data=base64.b64encode(data[at:at + PIECE]).decode(), more=at > 0,
                             goes_on=at + PIECE < len(data), seconds=60 * SCALE)

    def put(self, source, path):
        """Copies a file of this machine, with its mode."""
        if not self.machine.share:
            with open(source, "rb") as file:
                self.write_pieces(path, file.read(), os.stat(source).st_mode & 0o777)
            return
        with self.lab.shared() as (copy, name):
            shutil.copyfile(source, copy)
            self.channel.ask("write", path=path, share=name, mode=os.stat(source).st_mode & 0o777,
                             seconds=60 * SCALE)

    def folder(self, path):
        """{name: content} of the files in a folder; {} if it does not exist."""
        files = self.channel.ask("folder", path=path, seconds=60 * SCALE)["files"]
        return {name: base64.b64decode(data) for name, data in files.items()}

    # ---- the link and its device ---------------------------------------------------------------
    def netem(self, spec, only=None, netdev=None):
        """Sets what netem does to the packets that this guest sends: "loss 1%", "delay 2ms reorder
        25% 50%", ...; None removes it. only="roce": for RoCE v2 alone (UDP port 4791), TCP is not
        affected; only="tcp": for TCP alone.
        """
        netdev = netdev or self.netdev
        script = f"tc qdisc del dev {netdev} root 2>/dev/null || true\n"
        if spec and not only:
            script += f"tc qdisc add dev {netdev} root netem {spec}\n"
        elif spec:
            match = {"roce": "ip_proto udp dst_port 4791", "tcp": "ip_proto tcp"}[only]
            script += (f"tc qdisc add dev {netdev} root handle 1: prio bands 4 priomap "
                       f"{' '.join(['0'] * 16)}\n"
                       f"tc qdisc add dev {netdev} parent 1:4 handle 40: netem {spec}\n")
            for family in ("ip", "ipv6"):
                script += (f"tc filter add dev {netdev} parent 1: protocol {family} flower {match} "
                           f"classid 1:4\n")
        self.sh(script)

    def deaf(self, whether, only=None, netdev=None):
        """Sets whether it drops all packets that come in; only="roce" or "tcp": those alone. Unlike
        with netem's loss, the sender does not notice it: a send that fails, or a queue that is
        removed under a sender, ends rxe's queue pair, and the GSI's for good.
        """
        netdev = netdev or self.netdev
        script = f"tc qdisc del dev {netdev} clsact 2>/dev/null || true\n"
        if whether:
            match = {None: "", "roce": "ip_proto udp dst_port 4791", "tcp": "ip_proto tcp"}[only]
            script += f"tc qdisc add dev {netdev} clsact\n"
            for family in ("ip", "ipv6"):
                script += (f"tc filter add dev {netdev} ingress protocol {family} flower {match} "
                           f"action drop\n")
        self.sh(script)

    def link(self, up, netdev=None):
        """Sets the link administratively up or down; addresses stay."""
        self.sh(f"ip link set {netdev or self.netdev} {'up' if up else 'down'}")

    def cable(self, plugged, link=0):
        """Plugs or unplugs the cable of a link (its carrier)."""
        self.machine.cable(plugged, link)
        (self.unplugged.discard if plugged else self.unplugged.add)(link)

    def port_state(self, rnic=None):
        """The state of its RDMA port, such as "4: ACTIVE"."""
        return self.read(
            f"/sys/class/infiniband/{rnic or self.rnic}/ports/1/state").decode().strip()

    def hw_counters(self, rnic=None):
        """Counters of the RDMA device, by name: sent_pkts, rcvd_seq_err, ..."""
        return {name: int(text) for name, text in
                self.folder(
                    f"/sys/class/infiniband/{rnic or self.rnic}/ports/1/hw_counters").items()
                if text.strip().isdigit()}

    def two_devices(self):
        """For a case with one guest: two RDMA devices ra (10.5.0.1) and rb (10.5.0.2), with real
        packets between them.
        """
        self.sh("""
modprobe -a rdma_rxe rdma_ucm veth
ip link add v0 type veth peer name v1
sysctl -qw net.ipv4.conf.all.rp_filter=0
for i in 0 1; do
	ip address add 10.5.0.$((i + 1))/24 dev v$i
	ip link set v$i mtu 4500 up
	sysctl -qw net.ipv4.conf.v$i.accept_local=1 net.ipv4.conf.v$i.rp_filter=0
done
ip neighbour replace 10.5.0.2 lladdr $(cat /sys/class/net/v1/address) dev v0
ip neighbour replace 10.5.0.1 lladdr $(cat /sys/class/net/v0/address) dev v1
rdma link add ra type rxe netdev v0
rdma link add rb type rxe netdev v1
""")

    # ---- rsockd and rsock ----------------------------------------------------------------------
    def rsockd(self, config=None, **options):
        """Starts rsockd with these keys of rsockd.conf, and waits until it serves."""
        self.config = {"control": "/run/rsock/control.sock", "local": "/run/rsock/local.sock",
                       "state": "/run/rsock/state",
                       "node": self.name, **(config or {})}
        self.sh("mkdir -p /run/rsock/state")
        self.write("/run/rsock/rsockd.conf", json.dumps(self.config, indent=1))
        daemon = self.daemon = self.start([f"{ROOT}/bin/rsockd", "-c", "/run/rsock/rsockd.conf"],
                                          **options)

        def answers():
            if not daemon.running():
                raise Failure(f"rsockd of {self.name} ended with {daemon.rc}: {daemon.err()}")
            try:
                return self.get("/v1/status")["pid"] == daemon.pid
            except OSError:
                return False
        self.until(answers, 20 * SCALE, f"rsockd of {self.name} to answer")
        return daemon

    def ask(self, method, path, body=None, timeout=60 * SCALE):
        """Status and body of a request to rsockd; the body is decoded if it is JSON."""
        body = json.dumps(body).encode() if body is not None else b""
        request = (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                   f"Content-Length: {len(body)}\r\n\r\n").encode() + body
        answer = base64.b64decode(self.channel.ask("ask", socket=self.config["control"],
                                                   timeout=timeout,
                                                   seconds=timeout + 30,
                                                   data=base64.b64encode(request).decode())["data"])
        return read_answer(answer)

    def stat(self):
        """The output of `rsock stat --json`, for all users' programs."""
        return json.loads(self.run([f"{ROOT}/bin/rsock", "stat", "--json", "--all"], expect=0).out)

    # ---- the end of a case ---------------------------------------------------------------------
    def begin_case(self):
        output = " ".join(f"{handle.base}.*" for handle in self.handles)
        self.sh(f"rm -rf {CASE} /run/rsock {output}; mkdir -p {CASE}/stat; chmod 1777 {CASE} "
                f"{CASE}/stat\n" + self.machine.devices)
        self.handles, self.daemon, self.started = [], None, 0

    def end_case(self):
        """Removes all that the case left. Failure if a process cannot be ended, or had crashed."""
        for handle in self.handles:
            if handle.running():
                handle.expected.add(int(signal.SIGKILL))
        for link in sorted(self.unplugged):
            self.cable(True, link)
        left = self.channel.ask("reset", seconds=60)["left"]
        if left:
            self.machine.wedged = True
            raise Failure(f"{self.name}: processes that cannot be killed: {left}")
        self.sh(f"for device in {self.netdev} {self.netdev_1}; do [ ! -e /sys/class/net/$device ] "
                f"|| {{\n"
                "tc qdisc del dev $device root 2>/dev/null || true; tc qdisc del dev $device "
                "clsact 2>/dev/null || true; "
                "ip link set $device up; }; done")
        for handle in self.handles:
            if handle.rc in CRASHES and -handle.rc not in handle.expected:
                raise Failure(f"{handle.describe()}: crashed with {handle.rc}\n{handle.tail()}")

    def report(self, stream):
        try:
            told = [handle for handle in self.handles
                    if not handle.argv[0].endswith(("/rsock", "/bash"))]
            for handle in told[-8:]:
                print(f"--- {handle.describe()} -> {handle.rc}\n{handle.tail()}", file=stream)
            # A GSI queue pair in state ERR accepts no connection any more (README.md).
            gsi = self.sh("rdma resource show qp 2>/dev/null | grep -o 'link.*type GSI state "
                          "[A-Z]*' || true")
            print(f"--- {self.name}: {', '.join(gsi.splitlines())}", file=stream)
            log = self.folder(CASE).get("librsock.log", b"").decode(errors="replace").splitlines()
            if log:
                print(f"--- {self.name}: librsock log (last lines)\n" + "\n".join(log[-40:]),
                      file=stream)
        except (Failure, OSError) as failure:
            print(f"--- {self.name}: {failure}", file=stream)
        print(f"--- {self.name}: console (last lines)\n{self.machine.console_tail()}", file=stream)


def read_answer(data):
    """Status and body of an HTTP answer; joins a chunked body."""
    head, _, body = data.partition(b"\r\n\r\n")
    status, _, fields = head.partition(b"\r\n")
    headers = email.message_from_bytes(fields)
    if headers.get("Transfer-Encoding", "").lower() == "chunked":
        rest, body = body, b""
        while True:
            size, _, rest = rest.partition(b"\r\n")
            count = int(size.split(b";")[0] or b"0", 16)
            if not count:
                break
            body, rest = body + rest[:count], rest[count + 2:]
    if not status:
        raise ConnectionError(errno.ECONNRESET, "no answer")
    text = body.decode()
    return (int(status.split()[1]),
            json.loads(text) if headers.get("Content-Type") == "application/json" else text)
