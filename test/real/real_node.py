#!/usr/bin/python3 -B
"""Node: libuv closes every descriptor by syscall(SYS_close), and the next file gets the number."""
import os
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


if __name__ == "__main__":
    sys.exit(main())
