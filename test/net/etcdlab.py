"""etcd on a host of netlab.py as a real process, or on three of them; what it is asked directly;
and a proxy that makes the way to it a bad one. The scripts about a cluster use it.
"""
import base64
import http.client
import json
import os
import socket
import ssl
import subprocess
import threading
import time

from lib.harness import Failure
from netlab import Namespace

PORT, PEER_PORT = 2379, 2380
PREFIX = "/rsock/test"
CURRENT = f"{PREFIX}/config/current"


def b64(text):
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True)


class Certificates:
    """A certificate authority, and what it has signed; all files are in the case's folder."""

    def __init__(self, t, name):
        self.t, self.name = t, name
        self.ca, self.key = t.path(f"{name}.pem"), t.path(f"{name}.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                "-nodes", "-keyout", self.key, "-out", self.ca, "-subj", f"/CN={name}",
                "-days", "2")

    def sign(self, name, address=None, dns="client"):
        """Returns the paths of a certificate and its key."""
        path = self.t.path(f"{self.name}-{name}")
        extra = "subjectAltName=" + (f"IP:{address}" if address else f"DNS:{dns}")
        with open(f"{path}.ext", "w") as file:
            file.write(f"{extra}\nextendedKeyUsage=serverAuth,clientAuth\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-keyout", f"{path}.key", "-out", f"{path}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{path}.csr", "-CA", self.ca, "-CAkey", self.key,
                "-CAcreateserial", "-out", f"{path}.pem", "-extfile", f"{path}.ext", "-days", "2")
        return f"{path}.pem", f"{path}.key"


class Etcd:
    """tls: the authority that signs the server's certificate; by_client: clients need one, too;
    among: the hosts of the cluster that this is a node of, which the caller starts; words: more of
    etcd's command line. disk_mb, before it is started: the size of its disk.
    """

    def __init__(self, host, tls=None, by_client=False, among=(), words=()):
        self.host, self.t, self.tls, self.by_client = host, host.t, tls, by_client
        self.url = f"{'https' if tls else 'http'}://{host.ip}:{PORT}"
        self.data = self.t.path(f"etcd{host.number}")
        self.token = None
        self.peers = {f"host{one.number}": f"http://{one.ip if among else '127.0.0.1'}:{PEER_PORT}"
                      for one in among or (host,)}
        # Three nodes need time for each other; one alone elects itself.
        self.words = ["--heartbeat-interval", "50", "--election-timeout",
                      "500" if among else "250", *words]
        if tls:
            certificate, key = tls.sign("server", host.ip)
            self.words += ["--cert-file", certificate, "--key-file", key]
            self.context = ssl.create_default_context(cafile=tls.ca)
        if by_client:
            self.words += ["--client-cert-auth", "--trusted-ca-file", tls.ca]
            self.context.load_cert_chain(*tls.sign("test"))
        self.proc = self.disk_mb = None
        if not among:
            self.start()

    def launch(self):
        name, within = f"host{self.host.number}", ()
        if self.disk_mb:  # ip netns exec has made a mount namespace
            os.makedirs(self.data, mode=0o700)
            within = ["sh", "-c", f'mount -t tmpfs -o size={self.disk_mb}m none "$0" && exec "$@"',
                      self.data]
        self.proc = self.host.run(
            ["etcd", "--name", name, "--data-dir", self.data, "--listen-client-urls", self.url,
             "--advertise-client-urls", self.url, "--listen-peer-urls", self.peers[name],
             "--initial-advertise-peer-urls", self.peers[name], "--initial-cluster",
             ",".join(f"{one}={url}" for one, url in self.peers.items()), "--logger", "zap",
             "--log-level", "error", *self.words], name=f"etcd{self.host.number}", within=within)
        return self

    def runs(self):
        return self.proc.popen.poll() is None

    def ready(self):
        """Waits until it answers; one node of several does so only with a majority."""
        def answers():
            if not self.runs():
                raise Failure(f"etcd ended: {self.proc.err()}")
            try:
                return self.ask("kv/range", key=b64("x"))[0] in (200, 400, 401)
            except OSError:
                return False
        self.t.until(answers, 30, "etcd to answer")
        return self

    def start(self):
        return self.launch().ready()

    def kill(self):
        self.t.kill(self.proc)

    def connection(self, seconds=20):
        with self.host.inside():
            if self.tls:
                made = http.client.HTTPSConnection(self.host.ip, PORT, timeout=seconds,
                                                   context=self.context)
            else:
                made = http.client.HTTPConnection(self.host.ip, PORT, timeout=seconds)
            made.connect()
        return made

    def ask(self, path, seconds=20, **body):
        made = self.connection(seconds)
        headers = {"Authorization": self.token} if self.token else {}
        made.request("POST", f"/v3/{path}", json.dumps(body), headers)
        answer = made.getresponse()
        text = answer.read()
        made.close()
        return answer.status, json.loads(text)

    def do(self, path, **body):
        status, answer = self.ask(path, **body)
        if status != 200:
            raise Failure(f"etcd, {path}: {status} {answer}")
        return answer

    def figure(self, name):
        """A number of its metrics."""
        made = self.connection()
        made.request("GET", "/metrics")
        lines = made.getresponse().read().decode().splitlines()
        made.close()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))

    def put(self, text, key=CURRENT):
        """Returns the revision."""
        return int(self.do("kv/put", key=b64(key), value=b64(text))["header"]["revision"])


class EtcdCluster:
    """etcd on several hosts, each a node of one cluster. words: more of their command lines;
    disk_mb: the size of the last one's disk.
    """

    def __init__(self, hosts, words=(), disk_mb=None):
        self.t = hosts[0].t
        self.nodes = [Etcd(host, among=hosts, words=words) for host in hosts]
        self.nodes[-1].disk_mb = disk_mb
        self.start()

    def start(self):
        """Starts those that do not run."""
        for node in self.nodes:
            if not node.proc or not node.runs():
                node.launch()
        for node in self.nodes:
            node.ready()

    def status(self, node):
        return node.do("maintenance/status")

    def leader(self, among=None):
        """The node that leads, by what these ones (all that run) say; None: they do not agree."""
        told = {}
        for node in among or [node for node in self.nodes if node.runs()]:
            try:
                said = self.status(node)
            except (OSError, Failure):
                return None
            told[said["header"]["member_id"]] = (node, said.get("leader"))
        leaders = {leader for _, leader in told.values()}
        leader = leaders.pop()
        return told[leader][0] if not leaders and leader in told else None

    def any(self):
        return next(node for node in self.nodes if node.runs())

    def keys(self, node=None):
        """All keys with their entries, as a majority has them."""
        found = (node or self.any()).do("kv/range", key=b64(b"\0"), range_end=b64(b"\0"))
        return {base64.b64decode(one["key"]).decode(): one for one in found.get("kvs", [])}


class Proxy:
    """A TCP proxy on a host, before a server: it delays what it carries, holds back requests that
    have some word in them, loses events of a watch, or says nothing at all.
    """

    EVENT = b'"events"'  # etcd sends each in a chunk of its own

    def __init__(self, host, port, to, delay_s=0.0, at=None):
        self.host, self.to, self.delay_s = host, to, delay_s
        self.url = f"http://{at or host.ip}:{port}"
        self.held, self.hold = 0, None  # a word: requests with it are held back while it is set
        self.loses, self.lost = False, []
        self.late, self.late_behind = b"", b""  # sent behind the next event that has that word
        self.silent = False
        self.requests = 0  # pieces of requests that were carried
        with host.inside():
            self.socket = socket.create_server((at or host.ip, port))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near = self.socket.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.carry, args=(near,), daemon=True).start()

    def carry(self, near):
        namespace = Namespace(self.host.ns)
        namespace.enter(f"/run/netns/{self.host.ns}")  # this thread only
        try:
            far = socket.create_connection(self.to)
        except OSError:
            near.close()
            return
        threading.Thread(target=self.pump, args=(far, near, False), daemon=True).start()
        self.pump(near, far, True)

    def pump(self, source, sink, is_request):
        try:
            while data := source.recv(1 << 16):
                time.sleep(self.delay_s)
                self.requests += is_request
                if is_request and self.hold and self.hold in data:
                    self.held += 1
                    while self.hold:
                        time.sleep(0.01)
                if not is_request and self.EVENT in data:
                    if self.loses:
                        self.lost.append(data)
                        continue
                    if self.late and self.late_behind in data:
                        data, self.late = data + self.late, b""
                if not self.silent:
                    sink.sendall(data)
        except OSError:
            pass
        for one in (source, sink):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Liar:
    """A server that gives one answer, whatever it is asked, in place of etcd."""

    def __init__(self, host, port):
        self.url = f"http://{host.ip}:{port}"
        self.answer, self.asked = b"", 0
        with host.inside():
            self.socket = socket.create_server((host.ip, port))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client = self.socket.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.talk, args=(client,), daemon=True).start()

    def talk(self, client):
        try:
            with client:
                if client.recv(1 << 16):
                    self.asked += 1
                    client.sendall(self.answer)
        except OSError:
            pass


def answer(body, status="200 OK"):
    """An HTTP answer with this body."""
    body = body if isinstance(body, bytes) else body.encode()
    return (f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n").encode() + body
