#!/usr/bin/python3 -B
"""TLS programs: openssl s_server and s_client, stunnel between two programs, Python's ssl; a wrong
byte would end the session.
"""
import os
import signal
import sys

from lib.harness import PYTHON, case, main


def certificate(t):
    """A self-signed key and certificate; returns the path of both in one file."""
    key, cert, both = t.path("key.pem"), t.path("cert.pem"), t.path("both.pem")
    t.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
           "-nodes", "-days", "2",
           "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
           "-out", cert], preload=False)
    with open(both, "wb") as file:
        for part in (key, cert):
            with open(part, "rb") as source:
                file.write(source.read())
    return both


def s_server(t, *options, **spawn):
    port = t.free_port()
    server = t.spawn(["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert",
                      certificate(t), "-naccept", 1,
                      *options], name="s_server", **spawn)
    return t.listening(server, port), port


def bulk(t, *options):
    """Sends hex digits to the server while the server sends others back."""
    size = 30_000_000
    up, down = t.file("up", size, text=True), t.file("down", size, text=True)
    server, port = s_server(t, "-quiet", *options, stdin="pipe")
    client = t.spawn(["openssl", "s_client", "-quiet", "-connect", f"127.0.0.1:{port}", *options],
                     name="s_client",
                     stdin="pipe")
    t.feed(server, down)
    t.feed(client, up)
    for proc, wanted in ((server, up), (client, down)):
        t.until(lambda: os.path.getsize(proc.out_path) >= size, 60,
                f"{proc.name} to get {size} bytes")
        t.same_file(proc.out_path, wanted, f"what {proc.name} got")
    t.stop(client, signal.SIGINT)
    t.stop(server, signal.SIGINT)
    # Both are killed by the signal, without writing their statistics: they were sampled while they
    # ran.
    t.stats.direct(port, to_server=size, to_client=size, bulk=True)


@case(120)
def openssl_bulk_tls13(t):
    bulk(t, "-tls1_3")


@case(120)
def openssl_bulk_tls12(t):
    bulk(t, "-tls1_2")


@case(120)
def openssl_file_server(t):
    """openssl s_server -WWW with curl."""
    size = 40_000_000
    file = t.file("file", size)
    server, port = s_server(t, "-WWW")
    t.run(["curl", "-sS", "-f", "-k", "-0", "-o", t.path("got"), f"https://127.0.0.1:{port}/file"],
          name="curl")
    t.same_file(t.path("got"), file, "file by https")
    t.wait(server, 20)
    t.stats.direct(port, to_client=size, bulk=True)


@case(120)
def stunnel_between(t):
    """curl - stunnel (client) - stunnel (server) - http.server: all three connections direct."""
    size = 30_000_000
    file = t.file("file", size)
    back, middle, front = t.free_port(), t.free_port(), t.free_port()
    origin = t.listening(t.spawn([PYTHON, "-m", "http.server", "--bind", "127.0.0.1", "-p",
                                  "HTTP/1.1", "-d", t.tmp, back],
                                 name="origin"), back)
    pem = certificate(t)
    tunnels = []
    for name, accept, connect, role in (("far", middle, back, f"cert = {pem}"),
                                        ("near", front, middle, "client = yes")):
        config = t.path(f"stunnel-{name}.conf")
        with open(config, "w") as out:
            out.write(f"foreground = yes\npid =\nsyslog = no\ndebug = 4\n[{name}]\naccept = "
                      f"127.0.0.1:{accept}\n"
                      f"connect = 127.0.0.1:{connect}\n{role}\n")
        tunnels.append(t.listening(t.spawn(["stunnel4", config], name=f"stunnel-{name}"), accept))
    for number in range(3):
        t.run(["curl", "-sS", "-f", "-o", t.path("got"), f"http://127.0.0.1:{front}/file"],
              name="curl")
        t.same_file(t.path("got"), file, f"download {number} through the tunnel")
        t.stats.sample()
    for tunnel in tunnels:
        t.stop(tunnel)
    t.stop(origin, signal.SIGINT)
    for port in (front, middle, back):
        t.stats.direct(port, to_client=3 * size, streams=3, share=0.5, bulk=True)


@case(60)
def python_ssl(t):
    """Python's ssl on both ends: non-blocking BIO-free sockets, records of many sizes."""
    port = t.free_port()
    server = t.listening(t.python("tls_echo.py", "server", port, certificate(t)), port)
    text = t.wait_out(t.python("tls_echo.py", "client", port, t.path("cert.pem")), 50)
    t.equal(text.split()[0], "right", "verdict of the client")
    moved = int(text.split()[1])
    t.stop(server, signal.SIGINT)
    t.stats.direct(port, to_server=moved, to_client=moved)


if __name__ == "__main__":
    sys.exit(main())
