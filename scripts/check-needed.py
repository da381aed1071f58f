#!/usr/bin/env python3
"""Checks that include/rsock/needed_calls.def has a row for every system call that the library makes
for streams within a host, and no other row.

A call counts if the library's sources name its number (SYS_...), or call a wrapper of sys.h that
does; the rows of OF_LIBC are what libc and the kernel do on their behalf, and are justified there.
What goes to other hosts (REMOTE) is left out: a process with a filter makes no such link
(rsk_progress_forbid()). test/app/filter.c checks the arguments, and calls that no source names.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("preload", "stream", "fabric", "mapper/wire", "mapper/peer", "mapper/stats")
REMOTE = ("stream/remote/", "fabric/verbs/", "fabric/chaos")
# Calls that no source names.
OF_LIBC = {
    "brk": "malloc()",
    "clock_gettime": "a clock that the vDSO does not have",
    "fstatfs": "fstatfs()",
    "getcpu": "sched_getcpu(), where the vDSO does not have it",
    "restart_syscall": "the kernel restarts a wait",
    "rt_sigreturn": "the end of a signal handler",
}
WRAPPER = re.compile(r"^static inline [^;{]*?\b(rsk_sys_\w+)\([^;{]*\)\n\{\n(.*?)^\}", re.M | re.S)
NUMBER = re.compile(r"\bSYS_([a-z0-9_]+)\b")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)


def wrappers():
    """The calls of each function of sys.h, including those that it makes by another one."""
    text = COMMENT.sub("", (ROOT / "include/rsock/sys.h").read_text(encoding="utf-8"))
    text = text.replace("_Noreturn ", "")
    bodies = dict(WRAPPER.findall(text))

    def calls(name):
        found = set(NUMBER.findall(bodies[name]))
        for inner in set(re.findall(r"\brsk_sys_\w+", bodies[name])) & bodies.keys() - {name}:
            found |= calls(inner)
        return found
    return {name: calls(name) for name in bodies}


def made():
    """The calls of the sources, each with one of its places."""
    by_wrapper, found = wrappers(), {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            name = str(path.relative_to(ROOT))
            if name.startswith(REMOTE):
                continue
            text = COMMENT.sub("", path.read_text(encoding="utf-8"))
            calls = set(NUMBER.findall(text))
            for wrapper in set(re.findall(r"\brsk_sys_\w+", text)):
                calls |= by_wrapper.get(wrapper, set())
            for call in calls:
                found.setdefault(call, name)
    return found


def main():
    rows = COMMENT.sub("", (ROOT / "include/rsock/needed_calls.def").read_text(encoding="utf-8"))
    needed = set(re.findall(r"^RSK_NEEDED(?:_IF)?\((\w+)", rows, re.M))
    spared = set(re.findall(r"^RSK_NOT_NEEDED\((\w+)", rows, re.M))
    calls, errors = made(), []
    if len(calls) < 40:
        errors.append("the sources name hardly any system call: has sys.h another form?")
    errors += [f"{calls[name]}: {name} is in no row of needed_calls.def"
               for name in sorted(calls.keys() - needed - spared)]
    errors += [f"needed_calls.def: {name}: the library does not make this call"
               for name in sorted((needed | spared) - calls.keys() - OF_LIBC.keys())]
    errors += [f"needed_calls.def: {name} is both needed and not" for name in needed & spared]
    errors += [f"check-needed.py: {name} ({why}) has no row"
               for name, why in OF_LIBC.items() if name not in needed]
    print("\n".join(errors) or f"{len(needed)} calls are needed of a seccomp filter")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
