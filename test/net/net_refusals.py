#!/usr/bin/python3
"""Links that are refused at the RDMA address of a mapping: rsockd remembers them as a PMDeny."""
import socket
import sys

import local
from lib.harness import case, main
from net_local import ALICE, BOB, MALLORY, PORT
from net_rdma import (RAIL_A, RAIL_B, Connection, answer, guest, held, hosts, link, looked_up,
                      mapped, silent)


@case(timeout=60)
def a_link_that_is_refused(t):
    """It counts as a PMDeny of that service, for the user whose process says so, and for a while.
    """
    services = [{"name": name, "ports": [str(port)]} for name, port in (("it", PORT),
                                                                        ("other", PORT + 1))]
    a, b = hosts(t, of_a={"client": {"refused-time": "5s"}}, of_b={"services": services})
    first, other = Connection(a, b), Connection(a, b, port=PORT + 1)
    server, client = guest(b, ALICE, RAIL_B), guest(a, BOB, RAIL_A)

    def another(user, c):
        """A further connection to the same service, of which that user's new process asks."""
        with a.inside(), local.as_user(user):
            near = socket.create_connection(c.listener.getsockname())
        with local.as_user(ALICE):
            far, _address = c.listener.accept()
        looked_up(t, server, far, False, "remote", "the accepting end")
        return guest(a, user, RAIL_A), near, far

    def refused(who, sock, handle):
        link(t, who, sock, handle, flags=local.CONNECTING | local.REFUSED)
        silent(t, who)

    def asked():
        return b.counts()["requests"], a.counts("client")["sends"]
    said = mapped(t, a, b, first, server, client)
    spare = looked_up(t, client, first.near, True, "mapped", "a second mapping")
    # What another process claims of it, of whatever user, is not believed.
    for user in (BOB, MALLORY):
        refused(guest(a, user, RAIL_A), first.near, said["link"])
    refused(client, first.near, said["link"] ^ 1)
    link(t, client, other.near, said["link"], flags=local.CONNECTING | local.REFUSED)
    silent(t, client)
    t.equal((a.figure("local_link_refusals_total"), held(a, 2, 2)), (0, True), "refusals")
    refused(client, first.near, said["link"])
    t.equal((a.figure("local_link_refusals_total"), held(a, 1, 1)), (1, True),
            "counted, and given back")
    refused(client, first.near, said["link"])
    t.equal(a.figure("local_link_refusals_total"), 1, "once")
    before = asked()
    second, near, far = another(BOB, first)
    looked_up(t, second, near, True, "link-error", "a second session of the same user")
    looked_up(t, client, first.near, True, "link-error", "the first, once more")
    second.say(local.RESOLVE, netns=1, peer=socket.inet_aton(b.ip), peer_port=PORT,
               family=socket.AF_INET, cookie=5)
    t.equal(answer(t, second, "RESOLVE")[0], "link-error", "before a third one connects")
    t.equal((asked(), a.figure("local_asks_spared_total")), (before, 3), "PMReq")
    # Another service of the same host, and another user.
    looked_up(t, server, other.far, False, "remote")
    looked_up(t, second, other.near, True, "mapped", "another service")
    third, of_another, _far = another(MALLORY, first)
    theirs = looked_up(t, third, of_another, True, "mapped", "another user")
    # A mapping that is in use was not refused.
    link(t, third, of_another, theirs["link"], flags=local.CONNECTING)
    silent(t, third)
    refused(third, of_another, theirs["link"])
    fourth, of_another, _far = another(MALLORY, first)
    looked_up(t, fourth, of_another, True, "mapped", "of one that is in use")
    # It was promised before, and may be used.
    link(t, client, first.near, spare["link"], flags=local.CONNECTING)
    silent(t, client)

    def again():
        looked_up(t, server, far, False, "remote")
        second.look_up(near, True)
        return answer(t, second, "LOOKUP")[0] == "mapped"
    t.until(again, 20, "the service to be asked for again")


if __name__ == "__main__":
    sys.exit(main())
