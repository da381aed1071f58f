"""An echo server (tool_check.py) for one client after the other, which has first set up what
bypasses any library: io_uring, whose submissions the kernel polls, or seccomp with a filter that
does not let a call through that a ring needs (eventfd2).
"""
import ctypes
import os
import socket
import struct
import sys

SYS_IO_URING_SETUP, IORING_SETUP_SQPOLL = 425, 2
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
BPF_LOAD, BPF_EQUAL, BPF_RETURN = 0x20, 0x15, 0x06
RET_ALLOW, RET_EPERM = 0x7FFF0000, 0x00050001
SYS_EVENTFD2 = {"x86_64": 290, "aarch64": 19}[os.uname().machine]
CODE = b"".join(struct.pack("HBBI", *row) for row in (
    (BPF_LOAD, 0, 0, 0), (BPF_EQUAL, 0, 1, SYS_EVENTFD2),
    (BPF_RETURN, 0, 0, RET_EPERM), (BPF_RETURN, 0, 0, RET_ALLOW)))

libc = ctypes.CDLL(None, use_errno=True)
what, port = sys.argv[1], int(sys.argv[2])
if what == "io_uring":
    params = ctypes.create_string_buffer(struct.pack("III", 0, 0, IORING_SETUP_SQPOLL), 120)
    failed = libc.syscall(SYS_IO_URING_SETUP, 1, params) < 0
else:
    code = ctypes.create_string_buffer(CODE, len(CODE))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(CODE) // 8,
                                                      ctypes.addressof(code)))
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    failed = libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program) < 0
if failed:
    sys.exit(f"{what}: errno {ctypes.get_errno()}")
with socket.create_server(("127.0.0.1", port)) as server:
    while True:
        peer, _ = server.accept()
        with peer:
            while data := peer.recv(4096):
                peer.sendall(data)
