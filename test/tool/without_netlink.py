#!/usr/bin/python3 -B
"""without_netlink.py PROGRAM ARGS... (tool_causes.py): runs PROGRAM where AF_NETLINK sockets cannot
be made, as with systemd's RestrictAddressFamilies=.
"""
import ctypes
import errno
import os
import socket
import sys

ALLOW, ERRNO = 0x7fff0000, 0x00050000
EQUAL = 4  # SCMP_CMP_EQ


class Compare(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64),
                ("b", ctypes.c_uint64)]


library = ctypes.CDLL("libseccomp.so.2")
library.seccomp_init.restype = ctypes.c_void_p
library.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int,
                                           ctypes.c_uint,
                                           ctypes.POINTER(Compare)]
context = library.seccomp_init(ALLOW)
call = library.seccomp_syscall_resolve_name(b"socket")
if library.seccomp_rule_add_array(context, ERRNO | errno.EAFNOSUPPORT, call, 1,
                                  ctypes.byref(Compare(0, EQUAL, socket.AF_NETLINK, 0))) or \
        library.seccomp_load(ctypes.c_void_p(context)):
    sys.exit("the filter was not taken")
os.execvp(sys.argv[1], sys.argv[1:])
