#!/usr/bin/python3 -B
"""Node: libuv closes every descriptor by syscall(SYS_close), and the next file gets the number.
From 1.49 on (Node 22) it changes its epoll sets by an io_uring (app_uringset).
"""
import os
import re
import sys

from lib.harness import PROGRAMS, case, main

PROGRAM = os.path.join(PROGRAMS, "node_files.js")


@case(60)
def files_after_streams(t):
    port = t.free_port()
    os.makedirs(t.path("records"), exist_ok=True)
    server = t.spawn(["node", PROGRAM, "server", port, t.path("records")], name="node-server")
    t.listening(server, port)
    t.run(["node", PROGRAM, "client", port], name="node-client")
    t.wait(server, 20)
    for name in os.listdir(t.path("records")):
        with open(t.path("records", name), encoding="ascii") as file:
            t.check(file.read() == "the server's own record\n" * 100,
                    f"{name} is not what was written")
    t.stats.direct(port, streams=5)


SERVER = """require("http").createServer((request, response) => response.end("x".repeat(612)))
    .listen(process.argv[1], "127.0.0.1")"""


@case(60)
def http(t):
    port = t.free_port()
    server = t.spawn(["node", "-e", SERVER, port], name="node-server")
    t.listening(server, port)
    text = t.run(["wrk", "-t", 1, "-c", 16, "-d", "2s", f"http://127.0.0.1:{port}/"])
    t.check("Socket errors" not in text and "Non-2xx" not in text, f"wrk: {text}")
    count = int(re.search(r"(\d+) requests in", text)[1])
    t.check(count > 100, f"wrk: {text}")
    t.stats.direct(port, to_client=count * 612, streams=16)
    t.kill(server)


if __name__ == "__main__":
    sys.exit(main())
