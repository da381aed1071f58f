#!/usr/bin/python3 -B
"""rsock why: processes, descriptors and addresses, with and without the library, and what may not
be read.
"""
import os
import shutil
import signal

from lib.harness import case, main
from tool import (AS_NOBODY, NOBODY, REDIS, ask, ask_json, busy_client, connected, readable_by_all,
                  redis, says,
                  static_program, until_reason)

ALIVE = ["sleep", "1000"]


def started(t, argv, comm=None, **options):
    """Starts a program and waits until exec has taken place and the loader has finished."""
    proc = t.spawn(argv, **options)
    comm = comm or os.path.basename(argv[0])

    def runs():
        with open(f"/proc/{proc.pid}/comm") as file:
            return file.read().strip() == comm[:15] and asleep(proc.pid)
    t.until(runs, 10, f"{comm} to run")
    return proc


def asleep(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "S"


def finding(t, proc, expect, token, *words):
    """Checks what why says of a process without streams, in words and as JSON."""
    says(t, ask(t, "why", proc.pid, expect=expect).out(), *words)
    told = ask_json(t, "why", proc.pid, expect=expect)
    t.equal(told["processes"][0]["finding"], token, "finding")
    t.equal(told["accelerated"], {0: True, 1: False, 3: None}[expect], "accelerated")
    return told


@case(120)
def both_ends_of_a_stream(t):
    server, port = redis(t)
    with_it = busy_client(t, port)
    without = busy_client(t, port, preload=False)
    until_reason(t, server.pid, "direct")
    until_reason(t, server.pid, "no-peer")
    text = ask(t, "why", server.pid, expect=1).out()
    says(t, text, f"redis-server ({server.pid}) runs with librsock.so", ": accelerated\n",
         f"with redis-benchmark ({with_it.pid})", "on TCP: no-peer",
         f"The other end, redis-benchmark ({without.pid}), runs without librsock.so", "rsock run")
    told = ask_json(t, "why", server.pid, expect=1)
    t.equal(told["accelerated"], False, "accelerated")
    ends = {stream["other_end"]["pid"]: stream for stream in told["streams"]}
    t.equal(ends[with_it.pid]["accelerated"], True, "the client with the library")
    t.equal(ends[with_it.pid]["end"]["tx"], "ring", "path")
    t.equal(ends[with_it.pid]["other_end"]["reason"], "direct", "reason of the other end")
    t.equal(ends[without.pid]["accelerated"], False, "the client without")
    t.equal(ends[without.pid]["end"]["reason"], "no-peer", "reason")
    t.equal(ends[without.pid]["other_end"]["reason"], "no-preload", "reason of the other end")
    says(t, ask(t, "why", with_it.pid).out(), ": accelerated\n",
         f"with redis-server ({server.pid})")
    says(t, ask(t, "why", without.pid, expect=1).out(),
         "runs without librsock.so: it was started without it",
         f"redis-server ({server.pid})")
    # By descriptor, in both notations; and the descriptor of the stream without the library.
    fd = ends[with_it.pid]["end"]["fd"]
    for what in (f"{fd}@{server.pid}", f"{server.pid}:{fd}"):
        says(t, ask(t, "why", what).out(), f"fd {fd}: accelerated")
    fd = ends[without.pid]["end"]["fd"]
    ask(t, "why", f"{fd}@{server.pid}", expect=1)
    # By address: both streams from their server's end, and the listening process.
    for what in (f"127.0.0.1:{port}", f"localhost:{port}", f":{port}"):
        says(t, ask(t, "why", what, expect=1).out(),
             f"redis-server ({server.pid}) runs with librsock.so",
             f"with redis-benchmark ({with_it.pid})",
             f"redis-benchmark ({without.pid}), runs without")
    told = ask_json(t, "why", f":{port}", expect=1)
    t.check({stream["other_end"]["pid"] for stream in told["streams"]} >= {with_it.pid,
                                                                           without.pid}, f"{told}")
    t.kill(without)
    t.until(lambda: len(ask_json(t, "why", f":{port}", expect=None)["streams"]) == 1, 20,
            "one stream to be left")
    ask(t, "why", f":{port}")
    t.kill(with_it)


@case(60)
def what_a_process_is(t):
    os.chmod(t.tmp, 0o755)
    finding(t, started(t, ALIVE), 0, "ready", "runs with librsock.so", "no TCP connections")
    finding(t, started(t, ALIVE, preload=False), 1, "no-preload", "was started without it",
            "rsock run")
    finding(t, started(t, ALIVE, env={"RSOCK_DISABLE": "1"}), 1, "disabled", "RSOCK_DISABLE",
            "Cure: Unset")
    finding(t, started(t, ALIVE, preload=False, env={"LD_PRELOAD": "/nonexistent/librsock.so"}), 1,
            "preload-failed",
            "has not loaded it")
    static = t.spawn([static_program(t)], stdin="pipe")
    t.until(lambda: asleep(static.pid), 10, "the static program to wait")
    finding(t, static, 1, "static", "is linked statically")
    secure = t.path("secure-sleep")
    shutil.copy("/bin/sleep", secure)
    os.chown(secure, NOBODY, NOBODY)
    os.chmod(secure, 0o2755)
    finding(t, started(t, [secure, "1000"]), 1, "secure", "set-uid, set-gid")
    gone = t.spawn(["true"])
    t.wait(gone)
    finding(t, gone, 3, "gone", "there is no such process")


@case(60)
def limits_and_filters_are_noted(t):
    proc = started(t, ["prlimit", "--as=1073741824", "sleep", "1000"], "sleep")
    says(t, ask(t, "why", proc.pid).out(), "address space is limited to 1024 MiB")
    fd_limit = started(t, ["prlimit", "--nofile=8:8", "sleep", "1000"], "sleep")
    says(t, ask(t, "why", fd_limit.pid).out(), "of 8 descriptors")
    t.equal(len(ask_json(t, "why", fd_limit.pid)["processes"][0]["notes"]), 1, "notes")


@case(60)
def a_static_end(t):
    port = t.free_port()
    listener = t.spawn(["socat", f"TCP-LISTEN:{port},reuseaddr",
                        f"EXEC:{static_program(t)},nofork"], preload=False)
    t.listening(listener, port)
    with connected(port) as client:
        client.sendall(b"x")
        t.equal(client.recv(1), b"x", "echo")
        says(t, ask(t, "why", f"127.0.0.1:{port}", expect=1).out(), "is linked statically",
             "dynamically linked")
        says(t, ask(t, "why", f"0@{listener.pid}", expect=1).out(),
             f"({listener.pid}) is linked statically",
             f"({os.getpid()}), runs without librsock.so")
        says(t, ask(t, "why", f"2@{listener.pid}", expect=3).out(), "not a socket")
    listener.expected_signals.add(signal.SIGKILL)


@case(90)
def other_users(t):
    t.library = readable_by_all(t)
    theirs, port = redis(t, before=AS_NOBODY)
    mine = busy_client(t, port)
    for proc in (mine, theirs):
        until_reason(t, proc.pid, "other-user")
    says(t, ask(t, "why", mine.pid, expect=1).out(), "another effective user",
         "add both users to the group for which it vouches",
         "Here: usermod -aG rsock root && usermod -aG rsock nobody && systemctl reload rsockd")
    # Root sees both; the user nobody sees its own end, and that there is more.
    told = ask_json(t, "why", f":{port}", expect=1)
    t.equal(told["unreadable_processes"], 0, "unreadable to root")
    t.equal(told["processes"][0]["user"], "nobody", "user")
    proc = ask(t, "why", mine.pid, expect=3, before=AS_NOBODY)
    says(t, proc.out(), "cannot be read", "Run rsock as the process's user or as root")
    proc = ask(t, "why", theirs.pid, expect=1, before=AS_NOBODY)
    says(t, proc.out(), f"redis-server ({theirs.pid}) runs with librsock.so",
         "The other end is held by a process of user root that cannot be read")
    told = ask_json(t, "why", f":{port}", expect=1, before=AS_NOBODY)
    t.check(told["unreadable_processes"] > 0, "nobody may not see root's processes")
    t.equal(told["streams"][0]["other_end"]["pid"], None, "the process that he may not see")


@case(90)
def another_network_namespace(t):
    inside = t.spawn(["unshare", "-n", "sh", "-c",
                      "ip link set lo up && exec redis-server --port 6379 --save ''"],
                     preload=False)

    def listens():
        if os.readlink(f"/proc/{inside.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            return False
        with open(f"/proc/{inside.pid}/net/tcp") as file:
            return " 0A " in file.read()
    t.until(listens, 15, "redis in its namespace")
    client = t.spawn(["nsenter", "-n", "-t", inside.pid, "redis-cli", "-p", 6379, "blpop",
                      "nothing", "0"], preload=False)
    t.until(lambda: ask_json(t, "why", inside.pid, expect=1)["streams"], 15, "its stream")
    says(t, ask(t, "why", inside.pid, expect=1).out(), "127.0.0.1:6379 - 127.0.0.1:",
         f"The other end, redis-cli ({client.pid}), runs without librsock.so")


@case(90)
def another_host(t):
    """Two namespaces with a cable between them: for the tool, which runs in one, the other is
    almost like another host.
    """
    here, there = (started(t, ["unshare", "-n", *ALIVE], "sleep", preload=False) for _ in range(2))
    inside = {proc: ["nsenter", "-n", "-t", proc.pid] for proc in (here, there)}
    t.run([*inside[here], "ip", "link", "add", "left", "type", "veth", "peer", "name", "right",
           "netns", there.pid],
          preload=False)
    for proc, name, address in ((here, "left", "10.99.0.1/24"), (there, "right", "10.99.0.2/24")):
        t.run([*inside[proc], "sh", "-c",
               f"ip addr add {address} dev {name} && ip link set {name} up"], preload=False)
    servers = {port: t.spawn([*inside[there], "redis-server", "--port", port, "--dir", "/tmp",
                              "--protected-mode", "no",
                              *REDIS], preload=port == 6379, name="server")
               for port in (6379, 6380)}
    loop = "until redis-cli -h 10.99.0.2 -p $0 blpop nothing 0 && false; do :; done"
    for port in servers:
        t.spawn([*inside[here], "sh", "-c", loop, port], name="client")

    def connection(port):
        told = ask_json(t, "why", f"10.99.0.2:{port}", expect=None, before=inside[here])["streams"]
        return told[0] if told and told[0]["end"]["comm"] == "redis-cli" else None
    # The first connection's other end is found by its library's record; that of the second cannot
    # be seen from here.
    stream = t.until(lambda: connection(6379), 30, "the connection to 6379")
    stream = t.until(lambda: connection(6379) if connection(6379)["other_end"]["pid"] else None, 10,
                     "its other end")
    t.equal((stream["accelerated"], stream["other_end"]["reason"], stream["other_end"]["pid"]),
            (False, "other-netns", servers[6379].pid), "with the library")
    stream = t.until(lambda: connection(6380), 30, "the connection to 6380")
    t.equal((stream["accelerated"], stream["other_end"]["reason"], stream["other_end"]["pid"]),
            (False, "other-host", None), "without")
    says(t, ask(t, "why", "10.99.0.2:6380", expect=1, before=inside[here]).out(),
         "is on another host, or in another")
    for port, reason, pid in ((6379, "other-netns", servers[6379].pid), (6380, "no-rsockd", None)):
        told = ask_json(t, "check", "10.99.0.2", port, expect=1, before=inside[here])
        t.equal((told["accelerated"], told["reason"], told["server"] and told["server"]["pid"]),
                (False, reason, pid),
                f"check {port}")


@case(60)
def what_is_no_question(t):
    for words in ([], ["x"], ["1", "2"], ["1@"], ["host"], [":0"], ["--limit", "x", "1"],
                  ["--nonsense"]):
        says(t, ask(t, "why", *words, expect=2).err(), "usage: rsock why")
    nobody_there = t.free_port()
    says(t, ask(t, "why", f"127.0.0.1:{nobody_there}", expect=3).out(),
         "no connection to or from this address")
    says(t, ask(t, "why", "no-such-host.invalid:80", expect=3).err(), "no-such-host.invalid")


if __name__ == "__main__":
    raise SystemExit(main())
