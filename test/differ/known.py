"""Known faults that are not fixed yet: each entry names the fault and what the fuzzer leaves out
because of it. An entry is removed when its fault is fixed; `differ --no-known` runs without the
table.
"""

# name: what is wrong. model.py checks for the name where it would otherwise make the calls.
KNOWN = {
    "relay": "what docs/gaps.md says of relays: of bytes unread behind which the sender has gone "
             "on to TCP, a program that is "
             "executed sees none where others hold the socket, or those others do not; and a send "
             "behind the other end's "
             "close fails a moment later",
    "unseen-close": "a descriptor closed by no function of libc, with bytes unread, or before the "
                    "other end sends: the kernel's "
                    "reset shows late, or not at all (docs/gaps.md)",
    "fork-lowat": "SO_RCVLOWAT of a socket that several processes hold (docs/gaps.md)",
    "ring-room": "POLLOUT of a small ring that is nearly full (docs/gaps.md)",
    "epoll-order": "several became ready while no thread waited: TCP is told before rings, "
                   "whichever was first (docs/gaps.md)",
    "edge-again": "a registration of edges may be told once more after a fork, leaving, or a "
                  "change of path, or when its stream "
                  "is paired (docs/gaps.md)",
    "fork-stopped": "over RDMA devices: the child of a fork while the peer is stopped "
                    "(docs/gaps.md)",
    "kill-forked": "killed with bytes unread that were sent before the sender forked: its child "
                   "sees an end (docs/gaps.md)",
}

# Seeds whose difference has been examined and is reported, but has no rule above: not run, and
# counted separately.
SEEDS = {
}
