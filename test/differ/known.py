"""Faults that are known and not mended yet: each names the fault and what the fuzzer leaves out because of it. An entry
goes when its fault is mended; `differ --no-known` runs without the table.
"""

# name: what is wrong. model.py asks for the name where it would otherwise make the calls.
KNOWN = {
    "epoll-order": "epoll_wait() does not tell in the order in which descriptors became ready (issue 19, 1.8)",
    "kill-unread": "a holder that was forked and is killed with bytes unread: POLLHUP and ECONNRESET are missing (issue 19, 1.9)",
    "leave-edge": "a stream that leaves the ring gives an edge of EPOLLOUT that the kernel does not (issue 19, 1.9)",
}

# Seeds whose difference has been looked at and is reported, but has no rule above: not run, and counted apart.
SEEDS = {
    5: "epoll tells EPOLLIN|EPOLLRDHUP of a member that the kernel does not tell",
    24: "an edge of input is told once more where a fork of the other end changes the path",
    33: "POLLHUP and ECONNRESET are missing after a reset, other holders being there", 141: "as 33", 190: "as 33",
    45: "POLLOUT is missing after 9,000 bytes on a ring of 32 KiB", 121: "as 45",
    59: "recvmmsg() gives a byte where the kernel tells the reset first (issue 19, 1.9)",
    112: "send() after a reset: EPIPE where the kernel tells ECONNRESET first (issue 19, 1.9)", 120: "as 112", 165: "as 112",
}
