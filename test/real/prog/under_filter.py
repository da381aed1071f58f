#!/usr/bin/python3 -B
"""under_filter.py CALLS PROGRAM ARGS... (real_filter.py): runs PROGRAM as systemd does with
SystemCallFilter=CALLS, its sets and names with commas between them, "~" before one that is taken
out again; every other call kills it.
"""
import ctypes
import os
import subprocess
import sys

KILL_PROCESS = 0x80000000
ALLOW = 0x7fff0000


def calls_of(name):
    """The names of system calls in one of systemd's sets, including those of sets in it."""
    text = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", name], check=True,
                          capture_output=True, text=True).stdout
    names = set()
    for line in text.splitlines():
        word = line.strip()
        if not word.startswith(("#", "@")) and line.startswith(" "):
            names.add(word)
        elif word.startswith("@") and word != name:
            names |= calls_of(word)
    return names


def allowed_by(words):
    allowed = set()
    for word in words.split(","):
        calls = calls_of(word.lstrip("~")) if "@" in word else {word.lstrip("~")}
        allowed = allowed - calls if word.startswith("~") else allowed | calls
    return allowed


def main():
    allowed = allowed_by(sys.argv[1])
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(KILL_PROCESS))
    for name in sorted(allowed):
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:
            library.seccomp_rule_add(context, ALLOW, number, 0)
    if library.seccomp_load(context) != 0:
        sys.exit("the filter was not taken")
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
