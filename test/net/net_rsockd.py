#!/usr/bin/python3
"""rsockd between hosts: the protocol as other implementations speak it, bad networks, daemons that
die, floods, rights.
"""
import json
import os
import random
import signal
import socket
import sys
import threading

import pm
from lib.harness import case, main
from netlab import Lab

SERVICE, FIXED = 5201, 18000
EVERYTHING = [{"name": "everything"}]


def serving(host, **more):
    """A configuration: one RNIC on the host's own address, one service with a listen port of its
    own.
    """
    return {"rnics": [{"name": "rnic0", "addresses": [host.ip, host.ip6], "bandwidth": "25Gbit",
                       "sessions": 100000}],
            "services": [{"name": "iperf", "ports": [str(SERVICE)], "rdma-port": str(FIXED),
                          "pm-time": "3s"},
                         {"name": "made", "ports": ["6000-6010"], "pm-time": "2s"}],
            "rules": EVERYTHING, **more}


def asking(host, **more):
    return {"rnics": [{"name": "rnic0", "addresses": [host.ip, host.ip6]}],
            "services": [{"name": "any", "ports": ["1-65535"]}], "rules": EVERYTHING, **more}


def pair(t, **more):
    a, b = Lab(t, 2).hosts
    a.start(**asking(a))
    b.start(**serving(b, **more))
    return a, b


def released(t, host, seconds=20):
    """Waits until what was promised is released because no connection came."""
    t.until(lambda: host.get("/v1/status")["open"] == 0 and host.device("rnic0")["promised"] == 0,
            seconds,
            "all mappings to be released")
    t.equal(host.get("/v1/status")["ports"], 0, "listen ports that are still there")


@case(timeout=60)
def mapped_and_released(t):
    a, b = pair(t)
    answer = a.map(b, SERVICE)
    t.equal(answer["outcome"], "mapped", answer)
    t.equal(answer["rdma"], {"ip": b.ip, "port": FIXED}, "the RDMA address")
    t.equal(b.device("rnic0")["promised"], 1, "sessions promised")
    t.until(lambda: b.counts()["acks"] == 1, 10, "the PMAck")
    released(t, b)
    t.equal(b.counts()["expired"], 1, "mappings released unused")


@case(timeout=60)
def over_ipv6(t):
    a, b = pair(t)
    answer = a.map(b.ip6, SERVICE)
    t.equal((answer["outcome"], answer["rdma"]), ("mapped", {"ip": b.ip6, "port": FIXED}), answer)


@case(timeout=60)
def remembered_for_pm_time(t):
    a, b = pair(t)
    t.equal(a.map(b, SERVICE)["outcome"], "mapped", "the first")
    t.equal(a.map(b, SERVICE)["outcome"], "mapped", "the second")
    t.equal((b.asked(), a.counts("client")["cached"]), (1, 1),
            "PMReq, answers from memory")
    t.until(lambda: a.map(b, SERVICE)["outcome"] == "mapped" and b.asked() == 2, 20,
            "PmTime to be over")
    t.equal(a.map(b, SERVICE, cp_port=40000)["outcome"], "mapped", "for one connection")
    t.equal(a.map(b, SERVICE, cp_port=40000)["outcome"], "mapped", "for one connection, once more")
    t.equal(b.asked(), 4, "a connection is never answered from memory")


@case(timeout=60)
def a_listen_port_is_made_and_released(t):
    a, b = pair(t, **{"rdma-ports": "21000-21003"})
    port = a.map(b, 6000)["rdma"]["port"]
    t.check(21000 <= port <= 21003, f"port {port} is none of the range")
    t.equal(a.map(b, 6000, cp_port=1)["rdma"]["port"], port, "the same service, another one's")
    t.check(a.map(b, 6001)["rdma"]["port"] != port, "another service has a port of its own")
    t.equal(b.get("/v1/status")["ports"], 2, "listen ports")
    with b.inside():
        taken = socket.socket()
    try:
        taken.bind((b.ip, port))
        t.check(False, "somebody else could take the port")
    except OSError:
        pass
    released(t, b)
    taken.bind((b.ip, port))


@case(timeout=60)
def no_listen_port_is_left(t):
    """Policy agrees, but all listen ports are in use: the mapping is denied, and counted as such;
    it is made as soon as another one is released.
    """
    ports = [{"name": "made", "ports": ["6000-6010"], "pm-time": "254s"}]
    a, b = pair(t, **{"rdma-ports": "21000-21001"}, services=ports)
    client = pm.Client(a, b.ip)

    def ask(port, wanted):
        """Returns the port of that answer; an earlier one may come again before its PMAck."""
        client.send(pm.REQ, b.ip, port, 1, handles[port])
        message = t.until(lambda: (heard := client.hear()) and
                          (heard["handle"], heard["op"]) == (handles[port], wanted) and heard,
                          40, f"{pm.NAMES[wanted]} for {port}")
        if wanted == pm.ACCEPT:
            client.acknowledge(message)
        return message["ap_port"]

    handles = {port: client.handle() for port in (6000, 6001, 6002)}
    first = ask(6000, pm.ACCEPT)
    t.equal({first, ask(6001, pm.ACCEPT)}, {21000, 21001}, "the range")
    ask(6002, pm.DENY)
    t.equal(b.figure("policy_no_port_total"), 1, "denied for want of a listen port")
    answer = b.post("/v1/explain", {"side": "ap", "ip": b.ip, "port": 6002, "from": a.ip})
    t.equal(answer["verdict"], "map", "what policy says")
    t.equal((b.get("/v1/status")["ports"], b.device("rnic0")["promised"]), (2, 2), "held")
    # The first one is asked for again, when policy is against it: what it had is released.
    b.write_config(**{**b.config, "rules": [{"name": "others", "when": {"ports": ["6001-6010"]}}]})
    b.post("/v1/reload", {})
    ask(6000, pm.DENY)
    t.equal(ask(6002, pm.ACCEPT), first, "the third one, in its place")
    t.equal(b.figure("policy_no_port_total"), 1, "denied for want of a listen port")


@case(timeout=60)
def both_sides_decide(t):
    a, b = Lab(t, 2).hosts
    a.start(**asking(a, services=[{"name": "some", "ports": [str(SERVICE), "7000"]}]))
    b.start(**serving(b))
    answer = a.map(b, 9)
    t.equal((answer["outcome"], answer["verdict"]), ("not-asked", "no-rule"), answer)
    t.equal(b.asked(), 0, "F1 said no: no PMReq")
    answer = a.map(b, 7000)
    t.equal((answer["outcome"], answer["verdict"]), ("refused", "map"), answer)
    t.equal(b.counts()["denies"], 1, "F2 said no: PMDeny")


@case(timeout=60)
def no_device_no_request(t):
    a, b = Lab(t, 2).hosts
    a.start(services=[{"name": "any", "ports": ["1-65535"]}], rules=EVERYTHING)
    b.start(**serving(b))
    answer = a.map(b, SERVICE)
    t.equal((answer["outcome"], answer["verdict"]), ("not-asked", "no-device"), answer)
    t.equal(b.asked(), 0, "PMReq")


@case(timeout=60)
def silence_is_remembered(t):
    a, b = Lab(t, 2).hosts
    a.start(**asking(a, client={"rto-first": "20ms", "max-sends": "3"}))
    t.equal(a.map(b, SERVICE)["outcome"], "no-answer", "nobody is there")
    sends = a.counts("client")["sends"] + a.counts("client")["repeats"]
    t.equal(sends, 3, "PMReq sent")
    t.equal(a.map(b, 6000)["outcome"], "no-answer", "the host is remembered")
    t.equal(a.counts("client")["sends"] + a.counts("client")["repeats"], 3, "PMReq sent")


@case(timeout=120)
def a_bad_network(t):
    lab = Lab(t, 2)
    a, b = lab.hosts
    a.start(**asking(a, client={"rto-first": "30ms", "max-sends": "12"}))
    b.start(**serving(b))
    lab.make_wire(lose=25, twice=20, late=30)
    outcomes = []
    threads = [threading.Thread(target=lambda number=number: outcomes.append(
        a.map(b, SERVICE, cp_port=number)["outcome"])) for number in range(1, 101)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t.equal(outcomes, ["mapped"] * 100, "outcomes")
    faults = lab.make_wire()
    t.check(faults["lose"] > 20 and faults["twice"] > 20 and faults["late"] > 20,
            f"the wire did {faults}")
    t.check(a.counts("client")["repeats"] > 0, "nothing had to be sent again")
    released(t, b)


@case(timeout=60)
def as_iwpmd_speaks_it(t):
    a, b = Lab(t, 2).hosts
    b.start(**serving(b))
    client = pm.Client(a, b.ip)
    # 64 bytes, the link's source in the mapped fields; the same request again before it is
    # acknowledged.
    accept = client.ask(b.ip, SERVICE, 33000, mapped=a.ip, mapped_port=33001)
    t.equal({key: accept[key] for key in ("version", "op", "ipv", "spare", "ap", "ap_port", "cp",
                                          "cp_port", "bytes")},
            {"version": 0, "op": pm.ACCEPT, "ipv": 4, "spare": 0, "ap": b.ip, "ap_port": FIXED,
             "cp": a.ip,
             "cp_port": 33000, "bytes": 48}, "the PMAccept")
    again = client.hear(5)
    t.equal({key: again[key] for key in accept if key != "from"},
            {key: accept[key] for key in accept if key != "from"},
            "it is repeated until it is acknowledged")
    client.acknowledge(accept)
    t.until(lambda: b.counts()["acks"] == 1, 10, "the PMAck to count")
    deny = client.ask(b.ip, 9, 33002)
    t.equal((deny["op"], deny["ap_port"], deny["ap"], deny["bytes"]), (pm.DENY, 9, b.ip, 48),
            "the PMDeny")
    for junk in (b"", b"x", b"\0" * 47, b"\0" * 49, b"\xff" * 64, b"\0" * 200):
        client.socket.sendto(junk, client.to)
    t.until(lambda: b.counts()["malformed"] == 6, 10, "malformed datagrams to be counted")


@case(timeout=60)
def an_answer_leaves_from_where_it_was_asked(t):
    a, b = Lab(t, 2).hosts
    b.add_address("10.77.0.200")
    b.start(**serving(b))
    t.equal(pm.Client(a, "10.77.0.200").ask(b.ip, SERVICE, 1)["from"], "10.77.0.200",
            "source of the PMAccept")
    t.equal(pm.Client(a, b.ip).ask(b.ip, SERVICE, 2)["from"], b.ip, "source of the PMAccept")


@case(timeout=120)
def killed_and_started_again(t):
    a, b = pair(t, pmsp={"resends": "0"})
    outcomes, stop = [], threading.Event()

    def load():
        number = 0
        while not stop.is_set():
            number += 1
            outcomes.append(a.map(b, SERVICE, cp_port=number % 60000 + 1)["outcome"])
    a.write_config(**asking(a,
                            client={"rto-first": "20ms", "silent-time": "100ms", "max-sends": "3"}))
    t.stop(a.daemon)
    a.restart()
    thread = threading.Thread(target=load)
    thread.start()
    for round_ in range(6):
        mapped = outcomes.count("mapped")
        t.until(lambda: outcomes.count("mapped") > mapped + 20, 20, f"mappings in round {round_}")
        if round_ % 2:
            t.kill(b.daemon)
        else:
            t.stop(b.daemon)
        b.restart()
    stop.set()
    thread.join()
    t.check(set(outcomes) <= {"mapped", "no-answer", "refused"}, set(outcomes))
    released(t, b)


def resident(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@case(timeout=180)
def a_flood(t):
    """A million PMReq of nonexistent CPs, from many sources: memory is bounded, and others are
    served meanwhile.
    """
    a, b = Lab(t, 2).hosts
    a.start(**asking(a, client={"rto-first": "50ms", "max-sends": "12"}))
    b.start(**serving(b, pmsp={"max-open": "20000", "rate": "0"}))
    before = resident(b.daemon.pid)
    flood = b.run([os.path.join(t.bin, "pmload"), "--forge", "--requests", "1000000", "--sources",
                   "500", "--ap", b.ip,
                   "127.0.0.1", "3935", str(SERVICE)], name="flood")
    served = 0
    while flood.popen.poll() is None:
        served += 1
        t.equal(a.map(b, SERVICE, cp_port=served)["outcome"], "mapped",
                f"mapping {served} beside the flood")
        t.check(b.get("/v1/status")["open"] <= 20000, "more transactions than there may be")
    t.wait(flood)
    counts = b.counts()
    t.check(served > 10 and counts["evicted"] > 100000, f"{served} served, {counts}")
    grown = resident(b.daemon.pid) - before
    t.check(grown < 20000 * 1024, f"{grown} bytes more for 20,000 transactions")
    released(t, b, 40)


@case(timeout=60)
def a_source_that_asks_too_much(t):
    a, b = Lab(t, 2).hosts
    b.start(**serving(b, pmsp={"rate": "10", "burst": "20"}))
    greedy, other = pm.Client(a, b.ip), pm.Client(b, b.ip)
    for number in range(1, 201):
        greedy.send(pm.REQ, b.ip, SERVICE, number, greedy.handle())
    t.until(lambda: b.counts()["limited"] > 100, 10, "requests to be dropped")
    t.equal(other.ask(b.ip, SERVICE, 1)["op"], pm.ACCEPT, "another source")
    t.check(b.counts()["requests"] < 60, b.counts())


@case(timeout=60)
def gives_up_its_rights(t):
    (a,) = Lab(t, 1).hosts
    a.start(user="nobody")
    with open(f"/proc/{a.daemon.pid}/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file)
    import pwd
    uid = pwd.getpwnam("nobody").pw_uid
    t.equal(set(status["Uid"].split("\t")), {str(uid)}, "user")
    t.equal((status["CapEff"], status["CapPrm"], status["CapBnd"]), ("0" * 16,) * 3, "capabilities")
    t.equal((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"),
            "no_new_privs, system call filter")
    t.equal(a.get("/v1/status")["pid"], a.daemon.pid, "and still it answers")
    t.equal(a.post("/v1/map", {"ip": "10.77.0.9", "port": 1})["verdict"], "no-rule", "and decides")


@case(timeout=60)
def the_operator_s_side(t):
    a, b = pair(t, metrics="127.0.0.1:9935")
    a.map(b, SERVICE)
    steps = b.post("/v1/explain", {"side": "ap", "ip": b.ip, "port": SERVICE, "from": a.ip})
    t.equal((steps["verdict"], steps["rule"]), ("map", "everything"), steps)
    t.check(len(steps["steps"]) > 1, steps)
    t.equal(steps["address"], {"ip": b.ip, "port": FIXED}, "the AP's")
    near = a.post("/v1/explain", {"side": "cp", "ip": b.ip, "port": SERVICE})
    t.equal(near["address"], {"ip": a.ip, "port": 0}, "the CP's")
    away = b.post("/v1/explain", {"side": "ap", "ip": b.ip, "port": 9, "from": a.ip})
    t.equal((away["verdict"], away.get("address")), ("no-rule", None), "nothing is mapped")
    t.equal(b.device("rnic0")["promised"], 1, "a dry run promises nothing")
    metrics = b.run(["curl", "-sf", "http://127.0.0.1:9935/metrics"])
    t.wait(metrics)
    t.check(metrics.out().endswith("# EOF\n") and "rsockd_pmsp_requests_total 1\n" in metrics.out(),
            metrics.out())
    denied = b.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}",
                    "http://127.0.0.1:9935/v1/status"])
    t.equal(t.wait_out(denied), "404", "only figures over TCP")
    for path, body in (("/v1/map", {"ip": "x", "port": 1}), ("/v1/map", {"ip": b.ip}),
                       ("/v1/map", []),
                       ("/v1/map", {"ip": b.ip, "port": 70000}),
                       ("/v1/explain", {"ip": b.ip, "port": 1, "side": "no"}),
                       ("/v1/map", {"ip": f"::ffff:{b.ip}", "port": SERVICE}), ("/v1/drain", {})):
        t.check(b.post(path, body, status=400)["error"], body)
    t.equal(b.ask("GET", "/v1/nothing")[0], 404, "no such thing")
    t.equal(b.ask("GET", "/v1/map")[0], 405, "another method")
    t.equal(b.post("/v1/drain", {"device": "none"}, status=404)["error"], "there is no such device",
            "drain")


@case(timeout=120)
def nonsense_on_its_socket(t):
    """A process that may use the control socket sends anything to it: it is refused, or forgotten;
    others are served.
    """
    (a,) = Lab(t, 1).hosts
    a.start(**serving(a))
    dice = random.Random(5)

    def say(data):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(10)
        sock.connect(a.control)
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # rsockd closed it early; what it sent before that can be read here
        try:
            answer = sock.recv(4096)
        except ConnectionResetError:
            answer = b""
        sock.close()
        return answer

    def post(path, body, length=None):
        return (
            f"POST {path} HTTP/1.1\r\nHost: x\r\n"
            f"Content-Length: {length or len(body)}\r\n\r\n".encode() + body)

    for _ in range(200):
        say(dice.randbytes(dice.randrange(1, 3000)))
    for path in ("/v1/map", "/v1/explain", "/v1/drain", "/v1/reload", "/metrics", "/" + "x" * 5000,
                 "/%00", "//"):
        for body in (b"", b"{", b"[]", b"{}" * 100, b"null", b'{"ip": 5, "port": "x"}',
                     b'{"ip":"::1","port":-1}',
                     b'{"ip":"1.2.3.4","port":1e9}', b"[" * 60000,
                     b'{"device":"' + b"y" * 60000 + b'"}', b"\xff" * 100):
            say(post(path, body))
    t.check(b" 413 " in say(post("/v1/map", b"x" * 100000)), "a body that is too large")
    say(post("/v1/map", b"{}", length=1 << 40))
    say(b"GET /v1/status HTTP/1.1\r\n" + b"X: y\r\n" * 20000 + b"\r\n")
    idle = []
    for _ in range(100):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(a.control)
        sock.sendall(b"POST /v1/map HTTP/1.1\r\n")
        idle.append(sock)
    t.equal(a.get("/v1/status")["pid"], a.daemon.pid, "it still answers")
    for sock in idle:
        sock.close()


@case(timeout=60)
def an_asker_that_goes(t):
    """The connection of a question ends before the answer: what was promised for it is released."""
    (a,) = Lab(t, 1).hosts
    a.start(**asking(a, client={"rto-first": "300ms", "max-sends": "3"}))
    for number in range(20):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(a.control)
        body = json.dumps({"ip": "10.77.0.99", "port": SERVICE, "cp_port": number + 1}).encode()
        sock.sendall(b"POST /v1/map HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) +
                     body)
        t.until(lambda sent=number: a.counts("client")["sends"] == sent + 1, 10, "the PMReq")
        sock.close()
    t.until(lambda: a.device("rnic0")["promised"] == 0, 10, "what was promised to be given back")
    t.until(lambda: a.counts("client")["unanswered"] > 0, 20, "the questions to be given up")
    t.equal(a.get("/v1/status")["pid"], a.daemon.pid, "it still answers")


@case(timeout=60)
def a_reload_while_somebody_waits(t):
    """The rule by which the question was asked is gone when the answer comes: its name is still
    reported.
    """
    (a,) = Lab(t, 1).hosts
    rules = [{"name": f"rule-{'x' * 100}"}]
    a.start(**asking(a, rules=rules, client={"rto-first": "300ms", "max-sends": "2"}))
    answers = []
    asker = threading.Thread(target=lambda: answers.append(a.map("10.77.0.99", SERVICE, cp_port=1)))
    asker.start()
    t.until(lambda: a.counts("client")["sends"] == 1, 10, "the PMReq")
    for number in range(20):
        a.write_config(**asking(a, rules=[{"name": f"other-{number}-{'y' * 100}"}]))
        a.post("/v1/reload", {})
    asker.join()
    t.equal((answers[0]["outcome"], answers[0]["rule"], answers[0]["device"]),
            ("no-answer", rules[0]["name"], "rnic0"), answers[0])


@case(timeout=60)
def changes_are_for_the_owner(t):
    (a,) = Lab(t, 1).hosts
    a.start(**serving(a))
    os.chmod(t.tmp, 0o755)
    for path, body, status in (("/v1/drain", '{"device": "rnic0"}', "403"),
                               ("/v1/reload", "{}", "403"),
                               ("/v1/explain", f'{{"ip": "{a.ip}", "port": 1}}', "200")):
        curl = a.run(["setpriv", "--reuid", "nobody", "--clear-groups", "curl", "-s", "-o",
                      "/dev/null", "-w",
                      "%{http_code}", "--unix-socket", a.control, "-d", body,
                      f"http://localhost{path}"])
        t.equal(t.wait_out(curl), status, f"{path} of somebody else")
    t.equal(a.post("/v1/drain", {"device": "rnic0"})["state"], "draining", "of root")


@case(timeout=60)
def its_socket(t):
    (a,) = Lab(t, 1).hosts
    a.start()
    other = a.run([os.path.join(t.bin, "rsockd"), "-c", t.path("rsockd1.conf")])
    t.wait(other, expect=1)
    t.check("use" in other.err(), other.err())
    t.kill(a.daemon)
    t.check(os.path.exists(a.control), "a killed daemon leaves its socket")
    a.restart()
    with open(a.control + "x", "w"):
        pass
    a.write_config(control=a.control + "x", listen=["127.0.0.1:4000"])
    other = a.run([os.path.join(t.bin, "rsockd"), "-c", t.path("rsockd1.conf")])
    t.wait(other, expect=1)
    t.check(os.path.isfile(a.control + "x"), "somebody's file is left alone")


@case(timeout=60)
def tells_the_service_manager(t):
    (a,) = Lab(t, 1).hosts
    path = t.path("notify")
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(path)
    told.settimeout(10)
    a.write_config()
    a.daemon = a.run([os.path.join(t.bin, "rsockd"), "-c", t.path("rsockd1.conf")],
                     env={"NOTIFY_SOCKET": path})
    t.equal(told.recv(100), b"READY=1", "after the start")
    a.await_daemon()
    a.daemon.popen.send_signal(signal.SIGHUP)
    t.equal([told.recv(100), told.recv(100)], [b"RELOADING=1", b"READY=1"], "at a reload")
    t.stop(a.daemon)
    t.equal(told.recv(100), b"STOPPING=1", "at the end")
    t.equal(a.daemon.popen.returncode, 0, "exit status")


@case(timeout=30)
def the_command_line(t):
    rsockd = os.path.join(t.bin, "rsockd")
    t.check("usage: rsockd" in t.run([rsockd, "--help"], preload=False), "--help")
    t.check(t.run([rsockd, "-V"], preload=False).startswith("rsockd "), "-V")
    for wrong in (["-x"], ["more"], ["-t"], ["-c"]):
        t.run([rsockd, *wrong], preload=False, expect=2)
    for text, says in (("nonsense: 1\n", "nonsense"), ("rules: [\n", "line"),
                       ("listen: [300.1.1.1:1]\n", "300.1.1.1")):
        path = t.path("wrong.conf")
        with open(path, "w") as file:
            file.write(text)
        for more in (["-t"], []):
            proc = t.spawn([rsockd, "-c", path, *more], preload=False)
            t.wait(proc, expect=1)
            t.check(path in proc.err() and says in proc.err(), proc.err())
    proc = t.spawn([rsockd, "-c", t.path("none.conf")], preload=False)
    t.wait(proc, expect=1)
    t.check("none.conf" in proc.err(), proc.err())


if __name__ == "__main__":
    sys.exit(main())
