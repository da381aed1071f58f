"""Faults that are known and not mended yet: each names the fault and what the fuzzer leaves out because of it. An entry
goes when its fault is mended; `differ --no-known` runs without the table.
"""

# name: what is wrong. model.py asks for the name where it would otherwise make the calls.
KNOWN = {
    "syscall": "syscall(SYS_read, ...) and the like go to the kernel, behind the ring (issue 19, 1.1)",
    "raw-close": "a descriptor closed by no function of libc is not noticed (issue 19, 1.1)",
    "vfork": "vfork() and exec with an inherited descriptor: the child's bytes come out of order (issue 19, 1.3)",
    "sendfile-device": "sendfile() from a seekable character device goes behind the ring (issue 19, 1.4)",
    "leave-behind-fin": "a reader that leaves the ring after the peer's SHUT_WR loses what is unread (issue 19, 1.2)",
    "leave-moved": "a reader that leaves the ring when the sender has left before loses what is unread (issue 19, 1.2)",
    "epoll-order": "epoll_wait() does not tell in the order in which descriptors became ready (issue 19, 1.8)",
    "kill-unread": "a holder that was forked and is killed with bytes unread: POLLHUP and ECONNRESET are missing (issue 19, 1.9)",
    "leave-edge": "a stream that leaves the ring gives an edge of EPOLLOUT that the kernel does not (issue 19, 1.9)",
    "splice": "splice() from a socket into a pipe (issue 19, 1.5)",
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
