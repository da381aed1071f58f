#!/usr/bin/python3 -B
"""socat (relay, fork, exec with pipes, exec on the socket itself), inetd, nc: programs that get a
socket as fd 0 and 1.
"""
import os
import sys

from lib.harness import case, main

SIZE = 30_000_000


def transfer(t, port, source, got, *options):
    """Runs socat from a file to the server, and from the server to another file; half-close in
    between.
    """
    client = t.spawn(["socat", *options, "-t", 20, "-", f"TCP:127.0.0.1:{port}"],
                     name="socat-client", stdin=source,
                     stdout=got)
    t.wait(client, 60)


def listen(t, action, *options, forks=True):
    port = t.free_port()
    address = f"TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr" + (",fork" if forks else "")
    server = t.spawn(["socat", *options, "-t", 20, address, action], name="socat-server")
    return t.listening(server, port), port


@case(60)
def one_way(t):
    source = t.file("source", SIZE)
    server, port = listen(t, f"CREATE:{t.path('got')}", "-u", forks=False)
    t.run(["socat", "-u", f"OPEN:{source}", f"TCP:127.0.0.1:{port}"], name="socat-client")
    t.wait(server, 20)
    t.same_file(t.path("got"), source, "file")
    t.stats.direct(port, to_server=SIZE, bulk=True)


@case(90)
def fork_relay_to_pipe(t):
    """A child for each connection; the connection is the child's alone, the parent closed it."""
    source = t.file("source", SIZE)
    server, port = listen(t, "EXEC:/bin/cat")
    for number in range(3):
        transfer(t, port, source, t.path(f"got{number}"))
        t.same_file(t.path(f"got{number}"), source, f"echo {number}")
        t.stats.sample()
    t.stop(server)
    t.stats.direct(port, to_server=3 * SIZE, to_client=3 * SIZE, streams=3, bulk=True)


@case(90)
def exec_on_the_socket(t):
    """EXEC with nofork: /bin/cat has the socket as fd 0 and 1; such a stream stays on TCP and says
    why.
    """
    source = t.file("source", SIZE)
    server, port = listen(t, "EXEC:/bin/cat,nofork")
    transfer(t, port, source, t.path("got"))
    t.same_file(t.path("got"), source, "echo by cat on the socket")
    t.stop(server)
    t.stats.plain(port, "client", streams=1, bytes_moved=2 * SIZE)


@case(90)
def exec_read_write_on_the_socket(t):
    """The same with a program that uses no stdio there: its streams are its alone, and direct."""
    source = t.file("source", SIZE)
    program = os.path.join(t.bin, "app_std_echo")
    server, port = listen(t, f"EXEC:{program} bulk,nofork")
    for number in range(3):
        transfer(t, port, source, t.path(f"got{number}"))
        t.same_file(t.path(f"got{number}"), source, f"echo {number}")
    t.stop(server)
    t.stats.direct(port, to_server=3 * SIZE, to_client=3 * SIZE, streams=3, bulk=True)


@case(90)
def exec_shell_on_the_socket(t):
    """A shell that reads lines with its own and other programs' stdio, then hands the rest to cat.
    """
    lines = "first line\nsecond line\n"
    source = t.path("source")
    t.file("rest", 2_000_000, text=True)
    with open(source, "wb") as out, open(t.path("rest"), "rb") as rest:
        out.write(lines.encode() + rest.read())
    server, port = listen(t, "SYSTEM:'read a; read b; echo got $b, $a; cat',nofork")
    transfer(t, port, source, t.path("got"))
    with open(t.path("got"), "rb") as got, open(t.path("rest"), "rb") as rest:
        t.equal(got.readline(), b"got second line, first line\n", "the shell's answer")
        t.check(got.read() == rest.read(), "what cat passed on differs")
    t.stop(server)
    t.stats.plain(port, "client", streams=1, bytes_moved=4_000_000)


@case(90)
def proxy_chain(t):
    """client - socat - socat: both hops direct, half-close passed on through both."""
    source = t.file("source", SIZE)
    far, far_port = listen(t, "EXEC:/bin/cat")
    near, port = listen(t, f"TCP:127.0.0.1:{far_port}")
    transfer(t, port, source, t.path("got"))
    t.same_file(t.path("got"), source, "echo through two relays")
    t.stop(near)
    t.stop(far)
    for hop in (port, far_port):
        t.stats.direct(hop, to_server=SIZE, to_client=SIZE, bulk=True)


def echoed_under_inetd(t, program, argv, times):
    """inetd accepts, forks, and executes an echo program with the connection as fds 0, 1, 2.
    Returns the port, when so many files have come back.
    """
    port = t.free_port()
    config = t.path("inetd.conf")
    with open(config, "w") as file:
        file.write(f"127.0.0.1:{port} stream tcp nowait root {program} {argv}\n")
    server = t.spawn(["inetutils-inetd", "-d", config], name="inetd",
                     env={"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"})
    t.listening(server, port)
    source = t.file("source", SIZE)
    for number in range(times):
        transfer(t, port, source, t.path(f"got{number}"))
        t.same_file(t.path(f"got{number}"), source, f"echo {number}")
    t.stop(server)
    return port


@case(90)
def inetd(t):
    """The classic case: a program that refers to stdout."""
    port = echoed_under_inetd(t, "/bin/cat", "cat", 5)
    t.stats.plain(port, "client", streams=5, bytes_moved=5 * 2 * SIZE)


@case(90)
def inetd_read_write(t):
    """The same with a program that uses no stdio on fds 0, 1, 2."""
    port = echoed_under_inetd(t, os.path.join(t.bin, "app_std_echo"), "app_std_echo bulk", 3)
    t.stats.direct(port, to_server=3 * SIZE, to_client=3 * SIZE, streams=3, bulk=True)


@case(60)
def netcat(t):
    """nc on both ends: poll(), one file, -N half-closes at the end of the file."""
    port = t.free_port()
    source = t.file("source", SIZE)
    server = t.listening(t.spawn(["nc", "-l", "127.0.0.1", port], name="nc-server"), port)
    t.run(["nc", "-N", "127.0.0.1", port], name="nc-client", stdin=source)
    t.wait(server, 20)
    t.same_file(server.out_path, source, "file")
    t.stats.direct(port, to_server=SIZE, bulk=True)


@case(60)
def netcat_both_ways(t):
    """Only the server shuts down: a listening nc ends at its peer's end of stream, whatever it
    still had to send.
    """
    port = t.free_port()
    up, down = t.file("up", SIZE), t.file("down", SIZE)
    server = t.listening(t.spawn(["nc", "-N", "-l", "127.0.0.1", port], name="nc-server",
                                 stdin=down), port)
    client = t.spawn(["nc", "127.0.0.1", port], name="nc-client", stdin=up)
    for proc, wanted in ((client, down), (server, up)):
        t.wait(proc, 40)
        t.same_file(proc.out_path, wanted, f"what {proc.name} got")
    t.stats.direct(port, to_server=SIZE, to_client=SIZE, bulk=True)


if __name__ == "__main__":
    sys.exit(main())
