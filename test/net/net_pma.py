#!/usr/bin/python3
"""Policy agents that ask each other: a central agent and local agents that ask it, one that dies,
and hostile ones.
"""
import errno
import json
import random
import socket
import sys
import threading

import pm
from lib.harness import Failure, case, main
from net_rsockd import EVERYTHING, FIXED, SERVICE, asking, released, serving
from netlab import Lab

PORT = 3936
QUICK = {"report-time": "100ms", "lost-after": "600ms"}


def central_agent(lab, number, services, **more):
    """Starts the central agent. Its devices are those of the local agents, if it knows any."""
    host = lab.hosts[number]
    pma = {"listen": [f"{host.ip}:{PORT}"], "allow": ["10.77.0.0/24"], "lease-time": "0s", **QUICK,
           **more.pop("pma", {})}
    return host.start(services=services, **{"rules": EVERYTHING, "pma": pma, **more})


def under(host, central, mode="both", **more):
    return {"central": f"{central.ip}:{PORT}", "mode": mode, **QUICK, "timeout": "300ms", **more}


def meets(t, host, state="heard"):
    t.until(lambda: host.get("/v1/status")["pma"]["central"]["state"] == state, 20,
            f"the central agent to be {state}")


def ready(t, central, *hosts):
    """Waits until the central agent's grace period is over, and it knows these hosts."""
    t.until(lambda: not central.get("/v1/status")["pma"]["serves"]["grace"], 20,
            "the grace period to end")
    for host in hosts:
        meets(t, host)


def held(central):
    return central.get("/v1/status")["pma"]["serves"]["leases"]


def link(host, key):
    return host.get("/v1/status")["pma"]["central"]["count"][key]


def answers_to(client, number):
    """{port: answer} of so many requests."""
    answers = {}
    while len(answers) < number:
        answer = client.hear()
        if not answer:
            raise Failure(f"{len(answers)} of {number} are answered")
        answers[answer["cp_port"]] = answer["op"]
    return answers


IPERF = [{"name": "iperf", "ports": [str(SERVICE)], "rdma-port": str(FIXED), "pm-time": "3s"}]


@case(timeout=60)
def both_have_to_agree(t):
    lab = Lab(t, 3)
    a, b, c = lab.hosts
    central_agent(lab, 2, IPERF)
    a.start(**asking(a))
    b.start(**serving(b, pma=under(b, c)))
    ready(t, c, b)
    t.equal(a.map(b, SERVICE)["outcome"], "mapped", "both agree")
    t.equal((held(c), b.device("rnic0")["promised"]), (1, 1), "on the books of both")
    # The central agent does not know that service, the local one does.
    t.equal(a.map(b, 6000)["outcome"], "refused", "the central agent does not")
    t.equal(b.device("rnic0")["promised"], 1, "and nothing is left of it here")
    # The other way round: the central agent need not be asked.
    asked = link(b, "asked")
    t.equal(a.map(b, 9)["outcome"], "refused", "the local one does not")
    t.equal(link(b, "asked"), asked, "questions to the central agent")
    released(t, b)
    t.until(lambda: held(c) == 0, 10, "what it was granted to be given back")


@case(timeout=60)
def the_cp_s_side_asks_too(t):
    lab = Lab(t, 3)
    a, b, c = lab.hosts
    central_agent(lab, 2, [{"name": "one", "ports": [str(SERVICE)]}])
    a.start(**asking(a, pma=under(a, c)))
    b.start(**serving(b))
    ready(t, c, a)
    t.equal(a.map(b, SERVICE)["outcome"], "mapped", "agreed")
    answer = a.map(b, 6000)
    t.equal((answer["outcome"], answer["verdict"]), ("not-asked", "no-rule"), answer)
    t.equal(b.asked(), 1, "no PMReq for what the central agent refuses")
    t.until(lambda: held(c) == 0 and a.device("rnic0")["promised"] == 0, 10,
            "what was asked only to be given back")


@case(timeout=60)
def the_central_alone(t):
    """The registry and the rules are the central agent's only; a local agent has devices, and is
    asked about nothing else.
    """
    lab = Lab(t, 3)
    a, b, c = lab.hosts
    b.add_address("10.77.1.1")
    central_agent(lab, 2, IPERF, rnics=[{"name": "b0", "node": "host2", "addresses": [b.ip]},
                                 {"name": "b1", "node": "host2", "addresses": ["10.77.1.1"]}])
    a.start(**asking(a))
    b.start(rnics=[{"name": "r0", "addresses": [b.ip], "sessions": 2},
                   {"name": "r1", "addresses": ["10.77.1.1"]}],
            pma=under(b, c, "central"))
    ready(t, c, b)
    answer = a.map(b, SERVICE, cp_port=1)
    t.equal((answer["outcome"], answer["rdma"]), ("mapped", {"ip": b.ip, "port": FIXED}), answer)
    t.equal((c.device("b0")["promised"], b.device("r0")["promised"]), (1, 1),
            "on the books of both")
    t.equal(a.map(b, SERVICE, cp_port=2)["outcome"], "mapped", "the second")
    t.equal(a.map(b, SERVICE, cp_port=3)["outcome"], "refused",
            "the device has room for two, whatever the central agent says")
    t.equal(a.map(b, 6000)["outcome"], "refused", "not in the central agent's registry")
    t.until(lambda: held(c) == 0, 20, "all to be given back")
    c.post("/v1/drain", {"device": "b0"})
    t.equal(a.map(b, SERVICE, cp_port=4)["rdma"]["ip"], "10.77.1.1",
            "the other one, since that is drained at the central agent")
    t.equal(b.device("r1")["promised"], 1, "and booked there by its node")
    c.post("/v1/drain", {"device": "b0", "on": False})
    b.post("/v1/drain", {"device": "r0"})
    t.until(lambda: c.device("b0")["state"] == "draining", 10, "the central agent to hear of it")
    t.equal(c.device("b1")["state"], "up", "the other one")


@case(timeout=60)
def a_local_hot_plug(t):
    """A change of a local device counts at once, without a message from the central agent."""
    lab = Lab(t, 3)
    a, b, c = lab.hosts
    central_agent(lab, 2, IPERF, rnics=[{"name": "b0", "node": "host2", "addresses": [b.ip]}])
    a.start(**asking(a))
    b.start(**serving(b, pma=under(b, c)))
    ready(t, c, b)
    t.equal(a.map(b, SERVICE, cp_port=1)["outcome"], "mapped", "before")
    asked = link(b, "asked")
    b.post("/v1/drain", {"device": "rnic0"})
    t.equal(a.map(b, SERVICE, cp_port=2)["outcome"], "refused", "drained here")
    t.equal(link(b, "asked"), asked, "questions to the central agent")
    t.until(lambda: c.device("b0")["state"] == "draining", 10, "the central agent to hear of it")
    b.post("/v1/drain", {"device": "rnic0", "on": False})
    t.until(lambda: c.device("b0")["state"] == "up", 10, "the central agent to hear of it")
    t.equal(a.map(b, SERVICE, cp_port=3)["outcome"], "mapped", "in use again")


@case(timeout=60)
def what_a_node_reaches(t):
    """The central agent's configuration does not say what a node's RNIC reaches: the node does."""
    lab = Lab(t, 3)
    a, b, c = lab.hosts
    central_agent(lab, 2, IPERF, rnics=[{"name": "b0", "node": "host2", "addresses": [b.ip]}])
    a.start(**asking(a))
    rnic = {"name": "rnic0", "addresses": [b.ip]}
    b.start(**serving(b, rnics=[{**rnic, "reach": ["10.99.0.0/16"]}], pma=under(b, c, "central")))
    ready(t, c, b)
    t.equal(a.map(b, SERVICE, cp_port=1)["outcome"], "refused", "a is not among them")
    question = {"ip": b.ip, "port": SERVICE, "from": a.ip, "side": "ap"}
    steps = c.post("/v1/explain", question)["steps"]
    t.check(any("its node reports that it does not reach" in step for step in steps), steps)
    b.write_config(**{**b.config, "rnics": [{**rnic, "reach": ["10.99.0.0/16", "10.77.0.0/24"]}]})
    b.post("/v1/reload", {})
    ports = iter(range(2, 1000))
    t.until(lambda: a.map(b, SERVICE, cp_port=next(ports))["outcome"] == "mapped", 20,
            "the central agent to hear of it")


@case(timeout=90)
def the_central_dies_and_returns(t):
    lab = Lab(t, 4)
    a, b, b2, c = lab.hosts
    services = [{"name": "iperf", "ports": [str(SERVICE)], "pm-time": "60s",
                 "limits": {"sessions": 3}}]
    central_agent(lab, 3, services)
    a.start(**asking(a))
    for host in (b, b2):
        host.start(**serving(host, services=[{**IPERF[0], "pm-time": "60s"}], pma=under(host, c)))
    ready(t, c, b, b2)
    for port in (1, 2):
        t.equal(a.map(b, SERVICE, cp_port=port)["outcome"], "mapped", "of three")
    t.kill(c.daemon)
    t.equal(a.map(b, SERVICE, cp_port=3)["outcome"], "refused", "nobody to ask: no")
    meets(t, b, "silent")
    t.check(b.get("/v1/status")["pma"]["central"]["count"]["failures"] > 0, "failures are counted")
    t.equal(b.device("rnic0")["promised"], 2, "what was granted stays")
    b2.write_config(**{**b2.config, "pma": {**b2.config["pma"], "if-silent": "local"}})
    b2.post("/v1/reload", {})
    t.until(lambda: b2.get("/v1/status")["pma"]["central"]["state"] == "silent", 10, "b2 to notice")
    t.equal(a.map(b2, SERVICE, cp_port=4)["outcome"], "mapped", "on our own word")
    t.check(link(b2, "silent_mapped") == 1, "and that is counted")
    c.restart()
    ready(t, c, b, b2)
    t.equal(held(c), 2, "the nodes have told what they hold")
    t.equal(a.map(b2, SERVICE, cp_port=5)["outcome"], "mapped", "the third")
    t.equal(a.map(b2, SERVICE, cp_port=6)["outcome"], "refused", "and no more")
    # What was granted to a node that dies is released a little later.
    t.kill(b.daemon)
    t.until(lambda: held(c) == 1, 10, "what the dead node held to be released")
    t.equal(a.map(b2, SERVICE, cp_port=7)["outcome"], "mapped", "so that there is room again")


@case(timeout=60)
def a_node_that_is_not_heard_of(t):
    lab = Lab(t, 3)
    a, b, c = lab.hosts
    central_agent(lab, 2, IPERF, rnics=[{"name": "b0", "node": "host2", "addresses": [b.ip]}])
    b.start(**serving(b, pma=under(b, c)))
    ready(t, c, b)
    t.equal(c.device("b0")["state"], "up", "it reports")
    t.kill(b.daemon)
    t.until(lambda: c.device("b0")["state"] == "down", 10, "its device to count as down")
    b.restart()
    t.until(lambda: c.device("b0")["state"] == "up", 10, "and up again")


@case(timeout=90)
def a_limit_of_the_central(t):
    """Two hosts ask for many at once: together they get exactly the central agent's limit."""
    lab = Lab(t, 4)
    a, b, b2, c = lab.hosts
    central_agent(lab, 3, [{"name": "iperf", "ports": [str(SERVICE)], "pm-time": "60s",
                     "limits": {"sessions": 50}}])
    for host in (b, b2):
        host.start(**serving(host, services=[{**IPERF[0], "pm-time": "60s"}],
                             pma=under(host, c, timeout="2s")))
    ready(t, c, b, b2)
    clients = [pm.Client(a, host.ip) for host in (b, b2)]
    for number in range(1, 101):
        for client, host in zip(clients, (b, b2)):
            client.send(pm.REQ, host.ip, SERVICE, number, client.handle())
    accepted = [list(answers_to(client, 100).values()).count(pm.ACCEPT) for client in clients]
    t.equal((sum(accepted), held(c)), (50, 50), f"accepted by each: {accepted}")
    t.equal(b.device("rnic0")["promised"] + b2.device("rnic0")["promised"], 50, "promised by both")


@case(timeout=60)
def an_answer_that_is_kept(t):
    """A lease whose session is over serves the next session of its kind, until the lease expires.
    """
    lab = Lab(t, 3)
    a, b, c = lab.hosts
    central_agent(lab, 2, [{"name": "any", "ports": ["1-65535"]}], pma={"lease-time": "2s"})
    a.start(**asking(a, pma=under(a, c)))
    b.start(**serving(b))
    ready(t, c, a)
    t.equal(a.map(b, SERVICE, cp_port=1)["outcome"], "mapped", "the first")
    t.equal((link(a, "asked"), link(a, "leased")), (1, 0), "the central agent is asked")
    t.equal(a.map(b, SERVICE, cp_port=2)["outcome"], "mapped", "the second")
    t.equal((link(a, "asked"), link(a, "leased")), (1, 1), "and not again")
    t.equal(a.map(b, 6000, cp_port=3)["outcome"], "mapped", "of another kind")
    t.equal(link(a, "asked"), 2, "it is asked for that")
    t.until(lambda: held(c) == 0, 20, "what is kept to be given back in the end")
    t.equal(a.map(b, SERVICE, cp_port=4)["outcome"], "mapped", "later")
    t.equal(link(a, "asked"), 3, "the central agent is asked again")


@case(timeout=120)
def who_means_no_good(t):
    lab = Lab(t, 3)
    a, b, c = lab.hosts
    central_agent(lab, 2, IPERF, pma={"allow": [f"{b.ip}/32"]})
    b.start(**serving(b, pma=under(b, c)))
    ready(t, c, b)
    dice = random.Random(7)

    def say(host, data, patient=False):
        with host.inside():
            sock = socket.create_connection((c.ip, PORT), timeout=10)
        try:
            sock.sendall(data)
            if not patient:
                sock.shutdown(socket.SHUT_WR)
            answer = sock.recv(4096)
        except OSError as error:
            # reset, before or after our end of it was closed
            if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN):
                raise
            answer = b""
        sock.close()
        return answer

    def post(path, body, length=None):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        return (f"POST /v1/pma/{path} HTTP/1.1\r\nHost: x\r\nContent-Length: "
                f"{length or len(body)}\r\n\r\n".encode() + body)

    who = {"node": "evil", "boot": "0123456789abcdef"}
    report = {**who, "resume": True, "part": 0, "last": True, "load": 0.5, "devices": [],
              "held": []}
    t.check(b" 403 " in say(a, post("report", report), True), "not in allow")
    t.check(b" 200 " in say(b, post("report", report), True), "in allow")
    question = {"id": 1, "side": "ap", "cp": a.ip, "ap": b.ip, "port": SERVICE, "one": True,
                "at": b.ip}
    t.check(b'"map"' in say(b, post("decide", {**who, "questions": [question]}), True),
            "a question")
    t.equal(held(c), 1, "granted")
    t.check(b'"map"' in say(b, post("decide", {**who, "questions": [question]}), True),
            "the same once more")
    t.equal(held(c), 1, "is the same grant")
    t.check(b" 409 " in say(b, post("decide", {**who, "boot": "f" * 16, "questions": [question]}),
                            True), "not known")
    t.check(b" 200 " not in say(b, post("report", b"x" * (1 << 21))), "too large")
    for path in ("decide", "release", "confirm", "report", "nothing", "", "x" * 5000):
        for body in (b"", b"{", b"[]", b"null", b"{}" * 50, b"[" * 100000, b"\xff" * 500, who,
                     {**who, "ids": [0]},
                     {**who, "ids": list(range(1, 2000))}, {**who, "ids": ["1"]},
                     {**who, "boot": "xyz"},
                     {**who, "questions": [{**question, "id": -1}]},
                     {**who, "questions": [{**question, "port": 0}]},
                     {**who, "questions": [{**question, "cp": "::1"}]},
                     {**who, "questions": [{**question, "x": 1}]},
                     {**who, "questions": [question] * 65}, {**report, "load": "x"},
                     {**report, "load": -1}, {**report, "part": -1},
                     {**report, "devices": [{}]}, {**report, "held": [question]},
                     {**report, "node": "n" * 64},
                     {**report, "more": 1}):
            t.check(b" 200 " not in say(b, post(path, body), True),
                    f"{path} {body[:80] if isinstance(body, bytes) else body}")
    for _ in range(100):
        say(b, dice.randbytes(dice.randrange(1, 3000)))
    say(b, post("decide", b"{}", length=1 << 40))
    t.until(lambda: held(c) == 0, 10, "the evil node's grant to run out")
    t.equal(c.get("/v1/status")["pma"]["serves"]["count"]["refused"], 1, "refused")
    meets(t, b)


@case(timeout=90)
def a_central_that_hangs(t):
    """A server that accepts, and answers nothing, or nonsense, or a little at a time: no request
    waits long for it.
    """
    lab = Lab(t, 3)
    a, b, c = lab.hosts
    with c.inside():
        server = socket.create_server((c.ip, PORT))
    script, ends = [], threading.Event()

    def serve():
        while True:
            try:
                sock = server.accept()[0]
            except OSError:
                return
            threading.Thread(target=answer, args=(sock,), daemon=True).start()

    def answer(sock):
        try:
            while sock.recv(65536):
                what = script[0]
                if what is None:
                    continue
                if what == "slow":
                    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                    while not ends.wait(0.05):
                        sock.sendall(b" ")
                    return
                sock.sendall(what)
        except OSError:
            pass

    def http(body, length=None):
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (length or len(body)) + body

    script[:] = [None]
    threading.Thread(target=serve, daemon=True).start()
    # The client sends each question as soon as the last one is answered: thousands in a second.
    b.start(**serving(b, pma=under(b, c, **{"timeout": "200ms"}), pmsp={"rate": "0"}))
    client = pm.Client(a, b.ip)
    number = 0
    for what in (None, "slow", http(b"{"), http(b'{"hold_ms":0}'), http(b"x" * (1 << 21)),
                 http(b"", 1 << 40),
                 b"garbage\r\n\r\n", b"HTTP/1.1 500 No\r\n\r\n", http(b'{"hold_ms":1000}')):
        script[:] = [what]
        failures = link(b, "failures")
        while link(b, "failures") == failures:
            number += 1
            deny = client.ask(b.ip, SERVICE, number)
            t.check(deny, f"question {number} is answered: {what and what[:80]}")
            t.equal((deny["op"], deny["cp_port"]), (pm.DENY, number),
                    f"refused in good time: {what}")
    t.equal(b.device("rnic0")["promised"], 0, "what is promised")
    t.until(lambda: b.get("/v1/status")["pma"]["central"]["open"] == 0, 10, "open questions")
    ends.set()
    server.close()


@case(timeout=60)
def an_answer_leaves_from_where_it_was_asked(t):
    """Also an answer that had to wait for the central agent."""
    lab = Lab(t, 3)
    a, b, c = lab.hosts
    b.add_address("10.77.0.200")
    central_agent(lab, 2, IPERF)
    b.start(**serving(b, pma=under(b, c)))
    ready(t, c, b)
    t.equal(pm.Client(a, "10.77.0.200").ask(b.ip, SERVICE, 1)["from"], "10.77.0.200",
            "source of the PMAccept")
    t.equal(pm.Client(a, b.ip).ask(b.ip, SERVICE, 2)["from"], b.ip, "source of the PMAccept")
    t.equal(pm.Client(a, "10.77.0.200").ask(b.ip, 6000, 3)["from"], "10.77.0.200",
            "source of a PMDeny")
    t.equal(link(b, "asked"), 3, "questions to the central agent")


@case(timeout=60)
def an_asker_that_goes(t):
    """The connection of a question that waits for the central agent ends: nothing is left of the
    question.
    """
    lab = Lab(t, 3)
    a, b, c = lab.hosts
    with c.inside():
        server = socket.create_server((c.ip, PORT))  # accepts connections, and never answers
    a.start(**asking(a, pma=under(a, c, timeout="1s", **{"report-time": "1h"})))
    for number in range(1, 11):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(a.control)
        body = json.dumps({"ip": b.ip, "port": SERVICE, "cp_port": number}).encode()
        sock.sendall(b"POST /v1/map HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) +
                     body)
        t.until(lambda: a.device("rnic0")["promised"] > 0 or link(a, "skipped") > 0, 10,
                "the question to wait")
        sock.close()
    t.until(lambda: a.device("rnic0")["promised"] == 0, 10, "what was promised to be given back")
    t.equal(a.get("/v1/status")["pma"]["central"]["open"], 0, "open questions")
    server.close()


@case(timeout=60)
def more_than_may_be_open(t):
    """A flood of questions is bounded, and none is left over."""
    lab = Lab(t, 3)
    a, b, c = lab.hosts
    central_agent(lab, 2, [{"name": "iperf", "ports": [str(SERVICE)], "pm-time": "2s"}])
    b.start(**serving(b, pma=under(b, c, **{"max-questions": "8"})))
    ready(t, c, b)
    client = pm.Client(a, b.ip)
    for number in range(1, 151):  # as many answers as a socket's buffer holds
        client.send(pm.REQ, b.ip, SERVICE, number, client.handle())
    heard = answers_to(client, 150)
    t.check(link(b, "full") > 0, "some were not asked")
    t.check(list(heard.values()).count(pm.ACCEPT) >= 8, heard)
    released(t, b)
    t.until(lambda: held(c) == 0, 10, "all to be given back")


if __name__ == "__main__":
    sys.exit(main())
