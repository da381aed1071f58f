#!/usr/bin/python3 -B
"""rsock demote and rsock promote of live streams: done, pending, impossible, and not permitted."""
import os

from lib.harness import PYTHON, case, main
from tool import (AS_NOBODY, ask, ask_json, busy_client, connected, readable_by_all, redis, says,
                  streams, until_reason)

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENT = ("--wait", 20)
NEVER_EARNED = {"RSOCK_EARN_CALLS": "0", "RSOCK_EARN_BYTES": "0"}


class Rounds:
    """A client that makes round trips when it is told to, and sleeps otherwise."""

    def __init__(self, t, port, **options):
        self.t = t
        self.proc = t.spawn([PYTHON, "-B", os.path.join(HERE, "rounds.py"), port], name="rounds",
                            stdin="pipe",
                            stdout="pipe", **options)
        self.pid = self.proc.pid
        self.said("connected")

    def said(self, what):
        self.t.equal(self.proc.stdout.readline().decode().strip(), what, "the client's word")

    def go(self, count):
        self.proc.stdin.write(f"{count}\n".encode())
        self.said(f"done {count}")


def paths(t, pid):
    return {(stream["tx"], stream["rx"]) for stream in streams(t, pid)}


def paired_client(t, port):
    """A client with one stream on the ring, idle."""
    client = Rounds(t, port)

    def direct():
        client.go(50)
        return paths(t, client.pid) == {("ring", "ring")}
    t.until(direct, 30, "the stream to be on the ring")
    return client


def moved(t, pid):
    [stream] = streams(t, pid)
    return stream["rx_ring_bytes"], stream["rx_tcp_bytes"]


@case(120)
def there_and_back(t):
    server, port = redis(t)
    client = busy_client(t, port)
    [stream] = until_reason(t, server.pid, "direct")
    fd = next(s["end"]["fd"] for s in ask_json(t, "why", server.pid, expect=None)["streams"])
    for what in (f"{server.pid}:{fd}", f"{fd}@{server.pid}", str(server.pid), f"127.0.0.1:{port}",
                 str(client.pid)):
        says(t, ask(t, "demote", *PATIENT, what).out(), "done (sends by tcp, receives by tcp)")
        near, far = (client, server) if what == str(client.pid) else (server, client)
        [stream] = streams(t, near.pid)
        t.equal((stream["tx"], stream["rx"], stream["reason"]), ("tcp", "tcp", "operator"),
                "the end that was asked")
        [other] = until_reason(t, far.pid, "peer-fell-back")
        t.equal((other["tx"], other["rx"]), ("tcp", "tcp"), "the other one")
        # The stream stays on TCP, and bytes go on.
        before = moved(t, near.pid)
        t.until(lambda was=before, pid=near.pid: moved(t, pid)[1] > was[1] + 50_000, 30,
                "bytes by TCP")
        t.equal(moved(t, near.pid)[0], before[0], "bytes by ring")
        says(t, ask(t, "why", near.pid, expect=1).out(),
             "on TCP: operator: An operator moved the stream back",
             "rsock promote")
        # A request for the present state is done at once.
        says(t, ask(t, "demote", *PATIENT, what).out(), "done")
        told = ask_json(t, "promote", *PATIENT, what)
        t.equal((told["request"], told["done"], len(told["streams"])), ("promote", 1, 1), f"{told}")
        t.equal({k: told["streams"][0][k] for k in ("pid", "result")},
                {"pid": near.pid, "result": "done"}, "the stream")
        for end in (server, client):
            until_reason(t, end.pid, "direct")
    t.kill(client)


@case(120)
def several_streams(t):
    server, port = redis(t)
    clients = [busy_client(t, port) for _ in range(2)]
    until_reason(t, server.pid, "direct", count=2)
    for what in (str(server.pid), f":{port}"):
        says(t, ask(t, "demote", what, expect=2).err(), "these are 2 streams",
             "usage: rsock demote")
        t.equal({stream["reason"] for stream in streams(t, server.pid)}, {"direct"},
                "reasons: nothing was done")
        told = ask_json(t, "demote", "--all", *PATIENT, what)
        t.equal((told["request"], told["done"], [s["result"] for s in told["streams"]]),
                ("demote", 2, ["done"] * 2),
                f"{told}")
        t.equal({stream["reason"] for stream in streams(t, server.pid)}, {"operator"}, "reasons")
        t.equal(ask_json(t, "promote", "--all", *PATIENT, what)["done"], 2, "promoted")
    for client in clients:
        t.kill(client)


@case(120)
def who_sleeps_hears_of_it_later(t):
    server, port = redis(t)
    client = paired_client(t, port)
    says(t, ask(t, "demote", "--wait", "0.1", client.pid, expect=3).out(),
         "its next call reads the request",
         "sends by ring")
    told = ask_json(t, "demote", "--wait", 0, client.pid, expect=3)
    t.equal((told["done"], told["streams"][0]["result"]), (0, "waiting"), f"{told}")
    t.equal(paths(t, client.pid), {("ring", "ring")}, "paths of who sleeps")
    client.go(2)
    t.equal(paths(t, client.pid), {("tcp", "tcp")}, "paths after a call or two")
    # The last request counts, even if no process has seen the one before it.
    ask(t, "promote", "--wait", 0, client.pid, expect=3)
    ask(t, "demote", "--wait", 0, client.pid, expect=3)
    client.go(100)
    t.equal(paths(t, client.pid), {("tcp", "tcp")}, "paths")
    ask(t, "promote", "--wait", 0, client.pid, expect=3)
    t.until(lambda: client.go(50) or paths(t, client.pid) == {("ring", "ring")}, 30,
            "the ring again")
    t.equal(paths(t, server.pid), {("ring", "ring")}, "paths at the server")
    t.kill(client.proc)


@case(120)
def who_need_not_wake_hears_of_it(t):
    """The server's calls find all they need on the fast path, and wake nobody: its client never
    sleeps.
    """
    port = t.free_port()
    server = t.spawn([PYTHON, "-B", os.path.join(HERE, "forker.py"), port, 1_000_000],
                     name="forker")
    t.listening(server, port)
    client = paired_client(t, port)
    client.go("busy")
    client.go(50)
    ask(t, "demote", "--wait", 0, server.pid, expect=3)
    client.go(1)
    t.equal({stream["rx"] for stream in streams(t, client.pid)}, {"tcp"}, "path of the answer")
    client.go(1)
    t.equal(paths(t, client.pid), {("tcp", "tcp")}, "paths")
    ask(t, "promote", "--wait", 0, server.pid, expect=3)
    t.until(lambda: client.go(50) or paths(t, client.pid) == {("ring", "ring")}, 30,
            "the ring again")
    t.kill(client.proc)


@case(120)
def each_end_has_its_say(t):
    server, port = redis(t)
    client = busy_client(t, port)
    until_reason(t, server.pid, "direct")
    for pid in (server.pid, client.pid):
        ask(t, "demote", *PATIENT, pid)
    says(t, ask(t, "promote", "--wait", "0.3", server.pid, expect=1).out(),
         "seen; one of the two ends")
    t.equal(paths(t, server.pid), {("tcp", "tcp")}, "paths while one end keeps it there")
    ask(t, "promote", *PATIENT, client.pid)
    until_reason(t, server.pid, "direct")
    t.kill(client)


@case(120)
def before_it_is_paired(t):
    server, port = redis(t)
    client = Rounds(t, port)
    client.go(2)
    # Pinned to TCP, it does not even look for its peer.
    ask(t, "demote", "--wait", 0, client.pid, expect=3)
    client.go(200)
    [stream] = streams(t, client.pid)
    t.equal((stream["tx"], stream["rx"], stream["reason"], stream["link"]),
            ("tcp", "tcp", "operator", 0), "pinned")
    says(t, ask(t, "demote", "--wait", 0, client.pid, expect=3).out(),
         "its next call reads the request")
    ask(t, "promote", "--wait", 0, client.pid, expect=3)
    t.until(lambda: client.go(50) or paths(t, client.pid) == {("ring", "ring")}, 30,
            "the stream to be paired")
    t.equal(paths(t, server.pid), {("ring", "ring")}, "paths at the server")
    t.kill(client.proc)


@case(120)
def it_earns_at_once(t):
    server, port = redis(t, env=NEVER_EARNED)
    client = Rounds(t, port, env=NEVER_EARNED)
    client.go(300)
    t.equal({stream["reason"] for pid in (server.pid, client.pid) for stream in streams(t, pid)},
            {"not-earned"},
            "reasons")
    for pid in (server.pid, client.pid):
        ask(t, "promote", "--wait", 0, pid, expect=3)
    t.until(lambda: client.go(50) or paths(t, client.pid) == {("ring", "ring")}, 30,
            "the stream to be paired")
    t.kill(client.proc)


@case(120)
def a_childs_stream(t):
    """A child continues a connection that its parent accepted, and its stream is paired once the
    parent has closed it.
    """
    port = t.free_port()
    server = t.spawn([PYTHON, "-B", os.path.join(HERE, "forker.py"), port, 0], name="forker",
                     stdout="pipe")
    t.listening(server, port)
    client = paired_client(t, port)
    child = int(server.stdout.readline())
    for what in (child, f":{port}"):
        ask(t, "demote", "--wait", 0, what, expect=3)
        client.go(2)
        t.equal(paths(t, client.pid), {("tcp", "tcp")}, "paths")
        says(t, ask(t, "why", what, expect=1).out(), "on TCP: operator")
        ask(t, "promote", "--wait", 0, what, expect=3)
        t.until(lambda: client.go(50) or paths(t, client.pid) == {("ring", "ring")}, 30,
                "the ring again")
    t.kill(client.proc)
    t.wait(server)


@case(60)
def a_parents_stream(t):
    """The stream was paired before the fork: the child is paired with the same peer, and is asked
    for it as for any other stream.
    """
    port = t.free_port()
    server = t.spawn([PYTHON, "-B", os.path.join(HERE, "forker.py"), port, 200], name="forker",
                     stdout="pipe")
    t.listening(server, port)
    client = Rounds(t, port)
    client.go(200)
    child = int(server.stdout.readline())

    def goes_by(path):
        client.go(50)
        return paths(t, child) == paths(t, client.pid) == {(path, path)}
    t.until(lambda: goes_by("ring"), 30, "the child to be on the ring")
    ask(t, "demote", "--wait", 0, child, expect=None)
    t.until(lambda: goes_by("tcp"), 30, "the child to be on TCP")
    ask(t, "promote", "--wait", 0, child, expect=None)
    t.until(lambda: goes_by("ring"), 30, "the child to be on the ring again")
    t.kill(client.proc)
    t.wait(server)


@case(60)
def what_was_given_up_stays(t):
    server, port = redis(t)
    client = paired_client(t, port)
    client.go("stamps")
    until_reason(t, client.pid, "messages")
    says(t, ask(t, "promote", client.pid, expect=1).out(),
         "it was given up before, and stays on TCP")
    t.equal(ask_json(t, "promote", client.pid, expect=1)["streams"][0]["result"], "given-up",
            "result")
    says(t, ask(t, "demote", client.pid).out(), "done")
    # The other end is still paired, and sees the request; but its peer does not answer.
    client.go(2)
    ask(t, "promote", "--wait", 0, server.pid, expect=3)
    client.go(200)
    says(t, ask(t, "demote", "--wait", 0, server.pid, expect=3).out(),
         "sends by tcp, receives by tcp")
    client.go(2)
    t.kill(client.proc)


@case(60)
def what_is_not_there(t):
    for command in ("demote", "promote"):
        for words in ([], ["x"], ["1", "2"], ["1@"], ["host"], ["--wait", "x", "1"],
                      ["--wait", "-1", "1"], ["--nonsense"]):
            says(t, ask(t, command, *words, expect=2).err(), f"usage: rsock {command}")
        says(t, ask(t, command, f":{t.free_port()}", expect=3).out(), "no such stream")
        says(t, ask(t, command, "no-such-host.invalid:80", expect=3).err(), "no-such-host.invalid")
        gone = t.spawn(["true"])
        t.wait(gone)
        says(t, ask(t, command, gone.pid, expect=3).out(), "no such stream")
        t.equal(ask_json(t, command, "--all", gone.pid, expect=3)["streams"], [], "streams")
    server, port = redis(t, preload=False)
    with connected(port):
        t.until(lambda: ask_json(t, "why", server.pid, expect=None)["streams"], 15,
                "the connection")
        says(t, ask(t, "demote", server.pid, expect=3).out(),
             "no stream there is of a process with librsock.so")
        t.equal(ask_json(t, "demote", server.pid, expect=3)["without_library"], 1,
                "streams without the library")
    # A descriptor that is no connection.
    says(t, ask(t, "demote", f"0@{server.pid}", expect=3).out(), "no such stream")


@case(120)
def whose_it_is(t):
    t.library = readable_by_all(t)
    server, port = redis(t)
    client = busy_client(t, port)
    until_reason(t, server.pid, "direct")
    for what in (str(server.pid), f":{port}", f"3@{server.pid}"):
        says(t, ask(t, "demote", "--all", what, expect=3, before=AS_NOBODY).out(),
             "processes of other users could not")
    t.equal(paths(t, server.pid), {("ring", "ring")}, "paths")
    t.kill(client)
    # Root may request it for every user's streams, and so may the user that runs the program.
    theirs, port = redis(t, before=AS_NOBODY)
    client = busy_client(t, port, before=AS_NOBODY)
    until_reason(t, theirs.pid, "direct")
    ask(t, "demote", *PATIENT, theirs.pid)
    until_reason(t, theirs.pid, "operator")
    ask(t, "promote", *PATIENT, theirs.pid, before=AS_NOBODY)
    until_reason(t, theirs.pid, "direct")
    t.kill(client)


if __name__ == "__main__":
    raise SystemExit(main())
