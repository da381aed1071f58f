#!/usr/bin/python3
"""Policy agents of several hosts over mutual TLS: who is who, and who is cut off."""
import json
import socket
import ssl
import sys
import time

from etcdlab import Certificates
from lib.harness import case, main
from net_pma import IPERF, PORT, central_agent, held, link, meets, ready, under
from net_rsockd import SERVICE, asking, serving
from netlab import Lab

BOOT = "0123456789abcdef"


def tls(authority, files):
    return {"tls": {"ca": authority.ca, "certificate": files[0], "key": files[1]}}


def refused(central):
    return central.get("/v1/status")["pma"]["serves"]["count"]["refused"]


def report(node):
    return {"node": node, "boot": BOOT, "resume": True, "part": 0, "last": True, "load": 0.5,
            "devices": [], "held": []}


def say(host, central, body, context):
    """What the central agent answers to a report from that host; b"": it hangs up."""
    body = json.dumps(body).encode()
    with host.inside():
        sock = socket.create_connection((central.ip, PORT), timeout=10)
    try:
        if context:
            sock = context.wrap_socket(sock)
        sock.sendall(b"POST /v1/pma/report HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" %
                     (len(body), body))
        return sock.recv(4096)
    except (ssl.SSLError, ConnectionError):
        return b""
    finally:
        sock.close()


def client(authority, files=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(authority.ca)
    if files:
        context.load_cert_chain(*files)
    return context


@case(timeout=90)
def from_the_question_to_the_end(t):
    """Each end has a certificate; the central agent is killed, and met again."""
    lab = Lab(t, 3)
    a, b, c = lab.hosts
    authority = Certificates(t, "us")
    central_agent(lab, 2, IPERF, pma=tls(authority, authority.sign("central", c.ip)))
    b.start(**serving(b, pma={**under(b, c), **tls(authority, authority.sign("b", dns="host2"))}))
    a.start(**asking(a))
    ready(t, c, b)
    t.equal(a.map(b, SERVICE)["outcome"], "mapped", "both agree")
    t.equal((held(c), b.device("rnic0")["promised"]), (1, 1), "on the books of both")
    for _ in range(2):
        t.kill(c.daemon)
        meets(t, b, "silent")
        c.restart()
        ready(t, c, b)
    t.equal(a.map(b, SERVICE, cp_port=2)["outcome"], "mapped", "by a new connection")
    t.equal(refused(c), 0, "refused")


@case(timeout=90)
def who_is_not_who_it_says(t):
    lab = Lab(t, 3)
    _, b, c = lab.hosts
    us, others = Certificates(t, "us"), Certificates(t, "others")
    central_agent(lab, 2, IPERF, pma=tls(us, us.sign("central", c.ip)))
    files = us.sign("b", dns="host2")
    good = client(us, files)
    t.check(b" 200 " in say(b, c, report("host2"), good), "its own name")
    t.check(b" 403 " in say(b, c, report("host3"), good), "another node's")
    for name in ("host2.example", "HOST2", ".", ".host2"):
        t.check(b" 403 " in say(b, c, report(name), good), name)
    for dns, name in (("*", "host2"), ("host2.example", ".example")):
        t.check(b" 403 " in say(b, c, report(name), client(us, us.sign("any", dns=dns))),
                f"a certificate for {dns} as {name}")
    t.equal(refused(c), 7, "refused")
    for context in (None, client(us), client(us, others.sign("b", dns="host2"))):
        t.equal(say(b, c, report("host2"), context), b"", "without TLS, or not of ours")
    old = client(us, files)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    t.equal(say(b, c, report("host2"), old), b"", "an old version")
    t.check(b" 200 " in say(b, c, report("host2"), good), "it serves on")
    # The other way round: who answers there is not the central agent.
    b.start(**serving(b, pma={**under(b, c), **tls(others, others.sign("bb", dns="host2"))}))
    meets(t, b, "silent")
    t.stop(b.daemon)
    b.start(**serving(b, pma={**under(b, c), **tls(us, files)}))
    meets(t, b)
    t.stop(c.daemon)
    c.config["pma"].update(tls(us, us.sign("elsewhere", "10.77.0.99")))
    c.start(**c.config)
    failed = link(b, "failures")
    t.until(lambda: link(b, "failures") > failed + 3, 20, "attempts")
    t.equal(c.get("/v1/status")["pma"]["serves"]["nodes"], [], "nothing was said to it")


@case(timeout=60)
def who_is_slow(t):
    """Who does not begin, or does not go on, is cut off, and nobody else waits for it."""
    lab = Lab(t, 3)
    _, b, c = lab.hosts
    authority = Certificates(t, "us")
    files = authority.sign("b", dns="host2")
    central_agent(lab, 2, IPERF, pma=tls(authority, authority.sign("central", c.ip)))
    with b.inside():
        mute, half = (socket.create_connection((c.ip, PORT), timeout=30) for _ in range(2))
    half = client(authority, files).wrap_socket(half)
    half.sendall(b"POST /v1/pma/report HTTP/1.1\r\n")
    began = time.monotonic()
    t.check(b" 200 " in say(b, c, report("host2"), client(authority, files)), "others")
    for sock in (mute, half):
        try:
            t.equal(sock.recv(1), b"", "it is cut off")
        except ConnectionError:
            pass
        sock.close()
    t.check(time.monotonic() - began < 20, f"after {time.monotonic() - began:.1f} s")


@case(timeout=60)
def who_may_not_ask(t):
    """A host that is not in the list gets no handshake, also with a good certificate."""
    lab = Lab(t, 3)
    a, b, c = lab.hosts
    authority = Certificates(t, "us")
    context = client(authority, authority.sign("b", dns="host2"))
    central_agent(lab, 2, IPERF, pma={**tls(authority, authority.sign("central", c.ip)),
                                      "allow": [f"{b.ip}/32"]})
    with a.inside():
        sock = socket.create_connection((c.ip, PORT), timeout=20)
    try:
        context.wrap_socket(sock)
        t.check(False, "a handshake with a host that may not ask")
    except ssl.SSLError as error:
        t.check("ACCESS_DENIED" in str(error), error)
    finally:
        sock.close()
    t.equal(refused(c), 1, "refused")
    t.check(b" 200 " in say(b, c, report("host2"), context), "one that may")
    t.equal(refused(c), 1, "refused")


@case(timeout=60)
def files_that_are_not_right(t):
    (a,) = Lab(t, 1).hosts
    us, others = Certificates(t, "us"), Certificates(t, "others")
    certificate, key = us.sign("a")
    for files, what in (((t.path("none"), key), "none"), ((us.key, key), "us.key"),
                        ((certificate, others.sign("a")[1]), "a.key")):
        path = a.write_config(pma={"listen": [f"{a.ip}:{PORT}"], "allow": ["10.77.0.0/24"],
                                   **tls(us, files)})
        proc = a.run([f"{t.bin}/rsockd", "-c", path])
        t.wait(proc, 20, expect=1)
        t.check("pma.tls: " in proc.err() and what in proc.err(), proc.err())


if __name__ == "__main__":
    sys.exit(main())
