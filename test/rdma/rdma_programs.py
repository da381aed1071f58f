#!/usr/bin/python3
"""Unmodified programs on two hosts: what they receive is right, and it went by RDMA."""
import hashlib
import json
import random
import re
import signal
import sys

from hosts import Wire, hosts
from lib.harness import Failure
from rdmalab import case, main

MIB = 1 << 20
NGINX = """
user root;
daemon off;
worker_processes 2;
pid /tmp/nginx.pid;
error_log /tmp/nginx-error.log;
events {{ worker_connections 256; }}
http {{
	access_log off;
	default_type application/octet-stream;
	sendfile {sendfile};
	client_max_body_size 1g;
	client_body_temp_path /tmp/nginx/body;
	proxy_temp_path /tmp/nginx/proxy;
	fastcgi_temp_path /tmp/nginx/fastcgi;
	uwsgi_temp_path /tmp/nginx/uwsgi;
	scgi_temp_path /tmp/nginx/scgi;
	keepalive_requests 1000000;
	server {{
		listen {port};
		listen [::]:{port};
		root /tmp/nginx/www;
		location /up/ {{ dav_methods PUT; create_full_put_path on; }}
	}}
}}
"""


def went_by_ring(t, port, side, least, streams=1):
    """True if so many streams were promoted, and moved so many bytes by ring in total."""
    found = t.stats.of_port(port, side)
    return (sum(bool(stream.promotions) for stream in found) >= streams and
            sum(stream.tx_ring_bytes + stream.rx_ring_bytes for stream in found) >= least)


def by_ring(t, port, least, streams=1):
    """Checks that of both of their ends."""
    t.stats.sample()
    for side in ("server", "client"):
        t.check(went_by_ring(t, port, side, least, streams),
                f"port {port}, {side}: {streams} streams and {least} bytes by ring are wanted: " +
                "; ".join(stream.line() for stream in t.stats.of_port(port, side)))
    t.stats.mirrored(port)


def longer(t, run, port, least, streams=1):
    """run(times) runs a program that ends after a set time, or number of requests, times as long as
    the shortest run. A run that is over before a link is up, in a slow guest, proves nothing: then
    one of twice the length follows. Each must succeed.
    """
    for times in (1, 2, 4, 8):
        run(times)
        t.stats.sample()
        if all(went_by_ring(t, port, side, least, streams) for side in ("server", "client")):
            break
    by_ring(t, port, least, streams)


def rounds(t, clients, port, least, seconds=120):
    """Clients that do the same again for each line that they read, until all have moved so many
    bytes by ring: a link takes its time, and a guest may be slow or fast.
    """
    def moved():
        order(t, clients, "again")
        t.stats.sample()
        return all(went_by_ring(t, port, side, least * len(clients), len(clients))
                   for side in ("server", "client"))
    try:
        clients[0].guest.until(moved, seconds, f"{least} bytes by ring")
    except Failure as failure:
        raise Failure(f"{failure}: " + "; ".join(stream.line() for side in ("server", "client")
                                                for stream in t.stats.of_port(port,
                                                                              side))) from None


def order(t, clients, word):
    for client in clients:
        client.send(word + "\n")
    for client in clients:
        t.equal(client.readline(), "right", client.describe())


def finish(t, clients, port):
    """Closes their standard input, and waits for their ends."""
    for client in clients:
        client.send("", close=True)
    for client in clients:
        client.wait(60, 0)
    t.stats.mirrored(port)


def python(guest, program, *words):
    """Starts a client for rounds()."""
    return guest.start(["/usr/bin/python3", "-c", program, *words], preload=True, stdin="pipe",
                       stdout="pipe")


def iperf3(t, *options, way="ip", streams=1, least=MIB // 2):
    a, b = hosts(t)
    port, wire = t.free_port(), Wire(t)

    def run(times):
        server = b.start(["iperf3", "-s", "-1", "-p", port], preload=True)
        b.listening(port, 60, server)
        words = ["iperf3", "-c", getattr(b, way), "-p", port, "-J", "--connect-timeout", 30000,
                 "-t", 4 * times, *options]
        end = json.loads(a.run(words, preload=True, timeout=200, expect=0).out)
        server.wait(60, 0)
        t.check("error" not in end, f"iperf3 says: {end.get('error')}")
        end = end["end"]
        t.check(end["sum_received"]["bytes"] <= end["sum_sent"]["bytes"],
                "received more than was sent")
        t.check(end["sum_received"]["bytes"] >= least,
                f"only {end['sum_received']['bytes']} bytes moved")
    longer(t, run, port, least, streams)
    wire.check(t, least // 4096 // 4)


@case(300)
def iperf3_upload(t):
    iperf3(t)


@case(300)
def iperf3_reverse(t):
    iperf3(t, "-R")


@case(300, long=True)
def iperf3_bidir(t):
    iperf3(t, "--bidir", streams=2)


@case(300)
def iperf3_parallel(t):
    iperf3(t, "-P", 4, streams=4)


@case(300, long=True)
def iperf3_ipv6(t):
    iperf3(t, way="ip6")


@case(400)
def redis(t):
    """Values are stored and read back over another connection; then redis-benchmark with
    pipelining.
    """
    a, b = hosts(t)
    port = t.free_port()
    server = b.start(["redis-server", "--port", port, "--bind", b.ip, "--save", "", "--appendonly",
                      "no", "--protected-mode", "no",
                      "--dir", "/tmp"], preload=True)
    b.listening(port, 60, server)
    cli = ["redis-cli", "-h", b.ip, "-p", port]
    value = random.Random("redis").randbytes(300_000).hex()
    t.equal(a.run([*cli, "-x", "set", "key"], stdin=value, preload=True, expect=0).out, "OK\n",
            "set")
    t.check(a.run([*cli, "get", "key"], preload=True, expect=0).out == value + "\n",
            "what was stored is not what is read")

    def run(times):
        words = ["redis-benchmark", "-h", b.ip, "-p", port, "-t", "set,get", "-n", 6000 * times,
                 "-c", 4, "-d", 512, "-P", 4, "--csv"]
        text = a.run(words, preload=True, timeout=300, expect=0).out
        t.check('"SET"' in text and '"GET"' in text, f"redis-benchmark says: {text}")
    longer(t, run, port, MIB // 2, 4)
    server.stop()


def nginx(t, sendfile):
    a, b = hosts(t)
    port = t.free_port()
    sizes = (1, 612, 16384, 65537, MIB, 3 * MIB)
    contents = {size: random.Random(size).randbytes(size) for size in sizes}
    b.sh("rm -rf /tmp/nginx; mkdir -p /tmp/nginx/www/up")
    for size, data in contents.items():
        b.write(f"/tmp/nginx/www/{size}", data)
    b.write("/tmp/nginx.conf", NGINX.format(port=port, sendfile=sendfile))
    server = b.start(["nginx", "-p", "/tmp/nginx", "-c", "/tmp/nginx.conf", "-e",
                      "/tmp/nginx-error.log"], preload=True)
    b.listening(port, 60, server)
    return a, b, server, port, contents


def digest(guest, path):
    return guest.sh(f"sha256sum {path}").split()[0]


FETCHING = """
import hashlib, http.client, json, os, sys
c = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=120)
wanted = json.loads(sys.argv[3])
for _ in sys.stdin:
    for size, digest in wanted.items():
        c.request("GET", "/" + size)
        got = c.getresponse().read()
        assert hashlib.sha256(got).hexdigest() == digest, (size, len(got))
    data, name = os.urandom(300000), "/up/" + sys.argv[4]
    c.request("PUT", name, data)
    answer = c.getresponse()
    assert answer.status in (201, 204) and not answer.read(), answer.status
    c.request("GET", name)
    assert c.getresponse().read() == data
    print("right", flush=True)
"""


@case(500)
def nginx_files(t):
    """Two workers, forked beforehand, and sendfile(): files by one kept connection of each address
    family, and uploads; with curl as well.
    """
    a, b, server, port, contents = nginx(t, "on")
    digests = json.dumps({str(size): hashlib.sha256(data).hexdigest()
                          for size, data in contents.items()})
    clients = [python(a, FETCHING, address, port, digests, name)
               for name, address in (("four", b.ip), ("six", b.ip6))]
    rounds(t, clients, port, MIB)
    finish(t, clients, port)
    # curl mostly ends before its process has a link to the worker's.
    for address in (b.ip, f"[{b.ip6}]"):
        words = [word for size in contents
                 for word in ("-o", f"/tmp/got-{size}", f"http://{address}:{port}/{size}")]
        a.run(["curl", "-sS", "-f", "-g", *words], preload=True, timeout=200, expect=0)
        for size, data in contents.items():
            t.equal(digest(a, f"/tmp/got-{size}"), hashlib.sha256(data).hexdigest(),
                    f"file of {size} bytes")
    a.run(["curl", "-sS", "-f", "-T", f"/tmp/got-{3 * MIB}", f"http://{b.ip}:{port}/up/loaded"],
          preload=True, timeout=200, expect=0)
    t.equal(digest(b, "/tmp/nginx/www/up/loaded"), hashlib.sha256(contents[3 * MIB]).hexdigest(),
            "what was uploaded")
    server.stop(signal.SIGQUIT)
    complaints = re.findall(r".*\[(?:error|crit|alert|emerg)\].*", b.sh("cat /tmp/nginx-error.log"))
    t.check(not complaints, f"nginx complains: {complaints[:5]}")


@case(400)
def nginx_wrk(t):
    """Many requests on kept connections, without sendfile."""
    a, b, server, port, _contents = nginx(t, "off")

    def run(times):
        words = ["wrk", "-t", 1, "-c", 8, "-d", f"{6 * times}s", "--timeout", "60s",
                 f"http://{b.ip}:{port}/16384"]
        text = a.run(words, preload=True, timeout=200, expect=0).out
        t.check("Socket errors" not in text and "Non-2xx" not in text, f"wrk says: {text}")
        t.check(int(re.search(r"(\d+) requests in", text)[1]) > 20, f"wrk says: {text}")
    longer(t, run, port, MIB // 2, 4)
    server.stop(signal.SIGQUIT)


STORING = """
import hashlib, socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 60)
f = s.makefile("rb")
for turn, _ in enumerate(sys.stdin):
    values = [hashlib.sha512(b"%d %d" % (turn, i)).digest() * 128 * (i % 8 + 1) for i in range(40)]
    for i, value in enumerate(values):
        s.sendall(b"set key%d 0 0 %d\\r\\n" % (i, len(value)) + value + b"\\r\\n")
        assert f.readline() == b"STORED\\r\\n"
    for i, value in enumerate(values):
        s.sendall(b"get key%d\\r\\n" % i)
        assert f.readline() == b"VALUE key%d 0 %d\\r\\n" % (i, len(value))
        assert f.read(len(value)) == value, i
        assert f.read(7) == b"\\r\\nEND\\r\\n"
    print("right", flush=True)
"""


@case(300)
def memcached(t):
    """Values in and out, by one connection."""
    a, b = hosts(t)
    port = t.free_port()
    server = b.start(["memcached", "-u", "root", "-l", b.ip, "-p", port, "-U", 0], preload=True)
    b.listening(port, 60, server)
    client = python(a, STORING, b.ip, port)
    rounds(t, [client], port, MIB // 4)
    finish(t, [client], port)
    server.stop()


FORKING = """
import os, signal, socket, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
s = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=64)
while True:
    c, _ = s.accept()
    if os.fork() == 0:
        s.close()
        while True:
            data = c.recv(65536)
            if not data:
                os._exit(0)
            c.sendall(data[::-1])
    c.close()
"""

ASKING = """
import os, socket, sys
c = socket.create_connection((sys.argv[1], int(sys.argv[2])), 120)
for _ in sys.stdin:
    for i in range(50):
        data = os.urandom(4000)
        c.sendall(data)
        got = b""
        while len(got) < len(data):
            part = c.recv(65536)
            assert part
            got += part
        # It is turned round in the pieces in which it came.
        assert sorted(got) == sorted(data), i
    print("right", flush=True)
c.shutdown(socket.SHUT_WR)
assert c.recv(1) == b""
"""


@case(400)
def forking_server(t):
    """A child for each connection, forked after accept."""
    a, b = hosts(t)
    port = t.free_port()
    server = b.start(["/usr/bin/python3", "-c", FORKING, b.ip, port], preload=True)
    b.listening(port, 60, server)
    clients = [python(a, ASKING, b.ip, port) for _ in range(3)]
    rounds(t, clients, port, MIB // 4)
    finish(t, clients, port)
    server.stop()


INHERITING = """
import os, socket, sys
s = socket.create_server((sys.argv[1], int(sys.argv[2])))
c, _ = s.accept()

def echo(last):
    data = b""
    while data[:1] != last:
        data = b""
        while len(data) < 4000:
            part = c.recv(4000 - len(data))
            if not part:
                return
            data += part
        c.sendall(data)

echo(b"f")
if os.fork() == 0:
    echo(b"p")
    os._exit(0)
os.wait()
echo(b"-")
"""

CONSTANT_LOAD = """
import os, socket, sys
c = socket.create_connection((sys.argv[1], int(sys.argv[2])), 120)
for line in sys.stdin:
    for i in range(50):
        data = (line[0] if i == 49 else " ").encode() + os.urandom(3999)
        c.sendall(data)
        got = b""
        while len(got) < len(data):
            part = c.recv(65536)
            assert part, i
            got += part
        assert got == data, i
    print("right", flush=True)
"""


@case(400)
def child_of_a_promoted_stream(t):
    """A child uses a stream that was promoted before the fork, then its parent does again."""
    a, b = hosts(t)
    port = t.free_port()
    server = b.start(["/usr/bin/python3", "-c", INHERITING, b.ip, port], preload=True)
    b.listening(port, 60, server)
    client = python(a, CONSTANT_LOAD, b.ip, port)
    rounds(t, [client], port, 100_000)
    for word in ("fork", "parent", "again"):
        order(t, [client], word)
    finish(t, [client], port)
    server.wait(60, 0)


EXECUTING = """
import os, socket, sys, time
c = socket.create_connection((sys.argv[1], int(sys.argv[2])), 120)
c.setblocking(True)  # the flag goes with it through exec
os.set_inheritable(c.fileno(), True)
for _ in sys.stdin:
    for i in range(50):
        data = bytes([i]) * 4000
        c.sendall(data)
        got = b""
        while len(got) < 4000:
            part = c.recv(4000 - len(got))
            assert part
            got += part
        assert got == data
    print("right", flush=True)
c.sendall(b"x" * 4000)
time.sleep(float(sys.argv[3]))
os.execv("/usr/bin/python3", ["python3", "-c", '''
import socket, sys
c = socket.socket(fileno=int(sys.argv[1]))
got = b""
while len(got) < 4000:
    part = c.recv(4000)
    assert part
    got += part
assert got == b"x" * 4000, got[:10]
for i in range(50):
    c.sendall(bytes([i]) * 4000)
    got = b""
    while len(got) < 4000:
        part = c.recv(4000 - len(got))
        assert part
        got += part
    assert got == bytes([i]) * 4000
''', str(c.fileno())])
"""


ECHO = """
import socket, sys
s = socket.create_server((sys.argv[1], int(sys.argv[2])))
c, _ = s.accept()
while data := c.recv(65536):
    c.sendall(data)
"""


@case(400)
def exec_with_a_stream(t):
    """A process executes another program that inherits a stream, with bytes under way to it, or
    unread: none is lost.
    """
    a, b = hosts(t)
    for unread_s in 0, 0.5:
        port = t.free_port()
        server = b.start(["/usr/bin/python3", "-c", ECHO, b.ip, port], preload=True)
        b.listening(port, 60, server)
        client = python(a, EXECUTING, b.ip, port, unread_s)
        rounds(t, [client], port, 200_000)
        finish(t, [client], port)
        server.wait(60, 0)


OWING = """
import os, socket, sys
s = socket.create_server((sys.argv[1], int(sys.argv[2])))
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
c, _ = s.accept()
for _ in sys.stdin:
    c.sendall(c.recv(20_000, socket.MSG_WAITALL))
    print("right", flush=True)
c.sendall(b"x" * 100_000)
print("sent", flush=True)
while True:
    data = c.recv(1)  # so it hears of the LEAVE, and repeats
"""


LEAVING = """
import os, socket, sys
c = socket.socket()
c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
c.connect((sys.argv[1], int(sys.argv[2])))
for line in sys.stdin:
    if line == "execute\\n":
        break
    c.sendall(b"y" * 20_000)
    assert c.recv(20_000, socket.MSG_WAITALL) == b"y" * 20_000
    print("right", flush=True)
os.set_inheritable(c.fileno(), True)
environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
os.execve("/usr/bin/python3", ["python3", "-c", '''
import socket, sys
c = socket.socket(fileno=int(sys.argv[1]))
print("right", flush=True)
sys.stdin.readline()
got = 0
try:
    while data := c.recv(65536):
        assert data == b"x" * len(data)
        got += len(data)
    print(got, "and the end", flush=True)
except OSError as error:
    print(got, "and", type(error).__name__, flush=True)
''', str(c.fileno())], environment)
"""


@case(400)
def killed_while_it_repeats(t):
    """The reader of a ring executes a program without librsock, and the sender is killed while it
    repeats by TCP what was unread in the ring. A relay takes what has come, for which there is not
    enough room: the reader gets a part and a reset, not an orderly end. The ring, which 20,000
    bytes have made wide, takes all of it; TCP's buffers, made small, would not.
    """
    a, b = hosts(t)
    port = t.free_port()
    server = b.start(["/usr/bin/python3", "-c", OWING, b.ip, port], preload=True, stdin="pipe",
                     stdout="pipe")
    b.listening(port, 60, server)
    client = python(a, LEAVING, b.ip, port)

    def on_the_ring():
        order(t, [client, server], "again")
        t.stats.sample()
        return all(went_by_ring(t, port, side, 200_000) for side in ("server", "client"))
    a.until(on_the_ring, 120, "both to go by ring")
    server.send("", close=True)
    t.equal(server.readline(), "sent", "what the server says")
    room = " ".join(a.sh("sysctl -n net.ipv4.tcp_wmem").split())
    a.sh("sysctl -qw net.ipv4.tcp_wmem='4096 4096 4096'")  # of the relay's socket
    try:
        order(t, [client], "execute")
    finally:
        a.sh(f"sysctl -qw net.ipv4.tcp_wmem='{room}'")
    server.kill(signal.SIGKILL)
    client.send("read\n")
    words = client.readline().split(" and ")
    t.check(len(words) == 2 and 0 < int(words[0]) < 100_000, f"a part came: {words}")
    t.equal(words[1], "ConnectionResetError", "then")
    client.wait(60, 0)


if __name__ == "__main__":
    sys.exit(main())
