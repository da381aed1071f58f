#!/usr/bin/python3 -B
"""rsock check: servers with and without the library, of another user, not there; the two-sided
test.
"""
import os
import re
import socket

from lib.harness import PYTHON, case, main
from tool import AS_NOBODY, NOBODY, ask, ask_json, connected, readable_by_all, redis, says


def echo_server(t, before=()):
    server = t.spawn([*before, t.tool, "check", "--serve", "0"], preload=False, name="echo")
    text = t.until(lambda: server.out() if server.out().count("echo on") == 2 else None, 15,
                   "the echo server")
    ports = set(re.findall(r"port (\d+)", text))
    t.equal(len(ports), 1, "one port on all addresses")
    return server, int(ports.pop())


@case(60)
def a_server_with_it(t):
    server, port = redis(t)
    says(t, ask(t, "check", "127.0.0.1", port).out(),
         f"redis-server ({server.pid}) runs with librsock.so",
         "would be accelerated")
    told = ask_json(t, "check", f"localhost:{port}")
    t.equal((told["accelerated"], told["reason"], told["server"]["pid"]),
            (True, "direct", server.pid), "answer")
    t.equal(told["accepted"], True, "it accepted this very connection")


@case(60)
def a_server_without(t):
    server, port = redis(t, preload=False)
    says(t, ask(t, "check", "127.0.0.1", port, expect=1).out(),
         f"redis-server ({server.pid}) runs without",
         "stays on TCP: no-preload", "rsock run")
    told = ask_json(t, "check", "127.0.0.1", port, expect=1)
    t.equal((told["accelerated"], told["reason"]), (False, "no-preload"), "answer")


@case(60)
def a_server_under_inetd_style(t):
    """socat hands the accepted socket as descriptor 0 to a program that has the library: it stays
    on TCP.
    """
    port = t.free_port()
    server = t.spawn(["socat", f"TCP-LISTEN:{port},reuseaddr,fork", "EXEC:cat,nofork"])
    t.listening(server, port)

    def decided():
        proc = ask_json(t, "check", "127.0.0.1", port, expect=1)
        return proc if proc["server"]["comm"] == "cat" else None
    told = t.until(decided, 20, "cat to have the connection")
    t.equal(told["reason"], "stdio", "reason")


@case(60)
def a_server_that_goes_past_the_library(t):
    """A program that has set up an io_uring with SQPOLL, or a seccomp filter that does
    not let its library's calls through: it accelerates nothing that begins afterwards.
    """
    for name, reason in (("io_uring", "io-uring"), ("seccomp", "seccomp")):
        port = t.free_port()
        server = t.spawn([PYTHON, "-B", os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                                     "past.py"), name, port])
        t.listening(server, port)
        told = ask_json(t, "check", "--timeout", "0.5", "127.0.0.1", port, expect=1)
        t.equal((told["reason"], told["server"]["pid"], told["accepted"]),
                (reason, server.pid, True), name)
        t.check(any(name in note for note in told["server"]["notes"]), f"no note of it: {told}")
        with connected(port) as client:
            client.sendall(b"x")
            t.equal(client.recv(1), b"x", "echo")
            says(t, ask(t, "why", server.pid, expect=1).out(), f"on TCP: {reason}: ", name)
        t.kill(server)


@case(60)
def no_server(t):
    port = t.free_port()
    says(t, ask(t, "check", "127.0.0.1", port, expect=3).err(), "Connection refused")
    says(t, ask(t, "check", "no-such-host.invalid", 80, expect=3).err(), "no such host")
    for words in ([], ["host"], ["host", "x"], ["host", "0"], ["h", "1", "2"],
                  ["--bind", "::1", "h", "1"],
                  ["--serve", "h", "1"], ["--serve", "--echo", "1"], ["--timeout", "0", "h", "1"]):
        ask(t, "check", *words, expect=2)


@case(60)
def a_server_that_does_not_accept(t):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        says(t, ask(t, "check", "--timeout", "0.2", "127.0.0.1", port, expect=1).out(),
             "not accepted yet",
             "stays on TCP: no-preload")


@case(90)
def two_sided(t):
    server, port = echo_server(t)
    told = ask_json(t, "check", "--echo", "127.0.0.1", port)
    t.equal(told["accelerated"], True, "accelerated")
    for end in ("end", "other_end"):
        t.equal((told["stream"][end]["tx"], told["stream"][end]["rx"]), ("ring", "ring"), end)
    t.equal(told["stream"]["other_end"]["pid"], server.pid, "the server")
    t.check(told["tcp_p50_ns"] > 0 and told["p50_ns"] > 0, f"times: {told}")
    says(t, ask(t, "check", "--echo", "localhost", port).out(), "accelerated", "the other: rsock",
         "without librsock.so")
    told = ask_json(t, "check", "--echo", "127.0.0.1", port,
                    before=["env", "--ignore-signal=CHLD"])
    t.equal(told["accelerated"], True, "accelerated, with SIGCHLD ignored")
    plain = ask_json(t, "check", "--probe", "127.0.0.1", port, expect=0, env={"RSOCK_DISABLE": "1"})
    t.equal(plain["stream"]["accelerated"], False, "a probe without the library")


@case(90)
def two_sided_and_on_tcp(t):
    port = t.free_port()
    server = t.spawn(["socat", f"TCP-LISTEN:{port},reuseaddr,fork", "EXEC:cat"], preload=False)
    t.listening(server, port)
    told = ask_json(t, "check", "--timeout", 1, "--echo", "127.0.0.1", port, expect=1)
    t.equal((told["accelerated"], told["stream"]["end"]["reason"]), (False, "no-peer"), "answer")
    t.equal(told["stream"]["other_end"]["reason"], "no-preload", "the other end")
    server, port = redis(t)
    says(t, ask(t, "check", "--echo", "127.0.0.1", port, expect=3).err(),
         "the server does not")
    says(t, ask(t, "check", "--echo", "127.0.0.1", t.free_port(), expect=3).err(), "refused")


@case(90)
def another_user(t):
    t.library = readable_by_all(t)
    server, port = echo_server(t, before=AS_NOBODY)
    told = ask_json(t, "check", "127.0.0.1", port, expect=1)
    t.equal((told["reason"], told["server"]["pid"]), ("other-user", server.pid), "as root")
    told = ask_json(t, "check", "127.0.0.1", port, before=AS_NOBODY)
    t.equal(told["accelerated"], True, "as that user")
    mine, port = echo_server(t)
    told = ask_json(t, "check", "127.0.0.1", port, expect=1, before=AS_NOBODY)
    t.check(told["server"] is None and told["reason"] == "other-user",
            f"of a process that user {NOBODY} may not see: {told}")
    told = ask_json(t, "check", "--timeout", 1, "--echo", "127.0.0.1", port, expect=1,
                    before=AS_NOBODY)
    t.equal(told["accelerated"], False, "two-sided, two users")


@case(60)
def serves_once(t):
    server = t.spawn([t.tool, "check", "--serve", "--once", "--bind", "127.0.0.1", "0"],
                     preload=False)
    text = t.until(lambda: server.out() if "port" in server.out() else None, 15, "the echo server")
    with socket.create_connection(("127.0.0.1", int(text.split()[-1])), timeout=20) as client:
        block = b"".join(number.to_bytes(4, "big") for number in range(50000))
        client.settimeout(20)
        got = bytearray()
        for start in range(0, len(block), 1000):
            client.sendall(block[start:start + 1000])
            while len(got) < start:
                got += client.recv(65536)
        while len(got) < len(block):
            got += client.recv(65536)
        t.check(bytes(got) == block, "the echo is what was sent")
    t.wait(server)


if __name__ == "__main__":
    raise SystemExit(main())
