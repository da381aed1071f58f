#!/usr/bin/python3 -B
"""rsock run: the program's environment, its exit status, and programs that cannot have the library.
"""
import os
import shutil

from lib.harness import case, main
from tool import (NOBODY, ask, ask_json, busy_client, readable_by_all, redis, says, static_program,
                  until_reason)


def environment(text):
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


@case(60)
def knobs_become_environment(t):
    got = environment(ask(t, "run", "--ring-kb", 64, "--no-spin", "--log=info", "--log-file",
                          t.path("log"),
                          "--earn-calls", 4, "--policy", "earn-bytes=1000", "--stat-file",
                          t.path("stat.ndjson"), "--",
                          "env", env={"LD_PRELOAD": "libm.so.6"}).out())
    wanted = {"LD_PRELOAD": f"libm.so.6:{t.library}", "RSOCK_RING_KB": "64", "RSOCK_SPIN_US": "0",
              "RSOCK_LOG": "info", "RSOCK_LOG_FILE": t.path("log"), "RSOCK_EARN_CALLS": "4",
              "RSOCK_EARN_BYTES": "1000",
              "RSOCK_STAT_FILE": t.path("stat.ndjson")}
    for name, value in wanted.items():
        t.equal(got.get(name), value, name)
    got = environment(ask(t, "run", "env").out())
    t.equal(got["LD_PRELOAD"], t.library, "LD_PRELOAD")
    t.equal([name for name in got if name.startswith("RSOCK_") and name not in os.environ], [],
            "what was not asked for")
    got = environment(ask(t, "run", "env", env={"LD_PRELOAD": t.library}).out())
    t.equal(got["LD_PRELOAD"], t.library, "LD_PRELOAD, never twice")


@case(60)
def the_programs_own_status_and_words(t):
    ask(t, "run", "--", "sh", "-c", "exit 7", expect=7)
    ask(t, "run", "sh", "-c", "kill -TERM $$", expect=-15)
    t.equal(ask(t, "run", "--no-spin", "echo", "--json", "--", "-b").out(), "--json -- -b\n",
            "the program's words")
    ask(t, "run", "no-such-program", expect=127)
    ask(t, "run", "/etc/passwd", expect=126)
    ask(t, "run", expect=2)
    ask(t, "run", "--ring-kb", 1, "true", expect=2)
    ask(t, "run", "--policy", "nonsense=1", "true", expect=2)
    ask(t, "run", "--log", "loud", "true", expect=2)
    says(t, ask(t, "run", "true", expect=4,
                env={"RSOCK_LIBRARY": "/nonexistent/librsock.so"}).err(),
         "/nonexistent/librsock.so")


@case(60)
def print_runs_nothing(t):
    mark = t.path("mark")
    told = ask_json(t, "run", "--ring-kb", 64, "touch", mark)
    t.equal(told["library"], t.library, "library")
    t.equal(told["environment"], {"LD_PRELOAD": t.library, "RSOCK_RING_KB": "64"}, "environment")
    t.check(told["warning"] is None and told["program"].endswith("/touch"), f"{told}")
    says(t, ask(t, "run", "--print", "touch", mark).out(), f"LD_PRELOAD={t.library}\n", "touch")
    t.check(not os.path.exists(mark), "it ran")
    says(t, ask_json(t, "run", static_program(t))["warning"], "statically")


@case(60)
def what_cannot_have_it_runs_all_the_same(t):
    text = t.file("text", 5000, text=True)
    proc = ask(t, "run", static_program(t), stdin=text)
    says(t, proc.err(), "is linked statically", "plain TCP")
    t.same_file(proc.out_path, text, "through the static program")
    secure = t.path("secure-cat")
    shutil.copy("/bin/cat", secure)
    os.chown(secure, NOBODY, NOBODY)
    os.chmod(secure, 0o4755)
    proc = ask(t, "run", secure, stdin=text)
    says(t, proc.err(), "set-uid")
    t.same_file(proc.out_path, text, "through the set-uid program")
    says(t, ask(t, "run", "true", env={"RSOCK_DISABLE": "1"}).err(), "RSOCK_DISABLE")
    t.equal(ask(t, "run", "true").err(), "", "nothing to warn of")


@case(60)
def another_c_library(t):
    """A program that another C library's loader starts could not link the library, and would end
    with 127: it runs without.
    """
    source = t.path("musl.c")
    with open(source, "w") as file:
        file.write('#include <stdio.h>\n#include <stdlib.h>\n'
                   'int main(void) { const char *p = getenv("LD_PRELOAD"); puts(p ? p : "-"); '
                   'return 7; }\n')
    program = t.path("musl-program")
    t.run(["musl-gcc", "-o", program, source], preload=False)
    script = t.path("script")
    with open(script, "w") as file:
        file.write(f"#!{program}\n")
    os.chmod(script, 0o755)
    for name in (program, script):
        proc = ask(t, "run", name, expect=7)
        t.equal(proc.out(), "-\n", "its LD_PRELOAD")
        says(t, proc.err(), "C library other than glibc", "plain TCP")
        told = ask_json(t, "run", name)
        says(t, told["warning"], "C library other than glibc")
        t.check("LD_PRELOAD" not in told["environment"], f"LD_PRELOAD: {told}")
        t.check("LD_PRELOAD" not in ask(t, "run", "--print", name).out(), "LD_PRELOAD is printed")
        says(t, ask(t, "bench", "--rounds", 6, name, expect=1).err(), "C library other than glibc",
             "there is nothing to compare")
    # Where LD_PRELOAD names the library already, it is taken out; the other entries stay.
    t.run(["musl-gcc", "-shared", "-nostdlib", "-o", t.path("other.so"), "-x", "c", "/dev/null"],
          preload=False)
    proc = ask(t, "run", program, expect=7, env={"LD_PRELOAD": f"{t.path('other.so')}:{t.library}"})
    t.equal(proc.out().strip().rstrip(":"), t.path("other.so"), "what was there")


@case(60)
def finds_the_library_beside_itself(t):
    os.environ.pop("RSOCK_LIBRARY", None)
    library = readable_by_all(t)
    t.equal(ask_json(t, "run", "true")["library"], library, "bin/ and lib/ side by side")
    link = t.path("rsock-link")
    os.symlink(t.tool, link)
    t.tool = link
    t.equal(ask_json(t, "run", "true")["library"], library, "through a link")


@case(120)
def as_installed(t):
    os.environ.pop("RSOCK_LIBRARY", None)
    build = os.path.dirname(os.path.dirname(os.path.realpath(t.tool)))
    t.run(["cmake", "--install", build, "--prefix", t.path("usr")], preload=False)
    t.tool = t.path("usr", "bin", "rsock")
    library = ask_json(t, "run", "true")["library"]
    t.check(library.startswith(t.path("usr")) and os.path.exists(library),
            f"the library that was installed: {library}")
    for file in ("share/man/man1/rsock.1", "share/bash-completion/completions/rsock"):
        t.check(os.path.exists(t.path("usr", file)), f"{file} is not installed")


@case(120)
def both_ends_started_by_it(t):
    server, port = redis(t, preload=False, before=[t.tool, "run", "--"])
    client = busy_client(t, port, preload=False, before=[t.tool, "run", "--earn-calls", 2])
    for proc in (server, client):
        until_reason(t, proc.pid, "direct")
    t.kill(client)
    t.stop(server)


if __name__ == "__main__":
    raise SystemExit(main())
