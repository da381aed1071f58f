"""What the tool's test scripts share: running the tool, and programs that it is asked about."""
import json
import os
import shutil
import socket

from lib.harness import Failure

NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
REDIS = ["--save", "", "--appendonly", "no", "--daemonize", "no"]


def ask(t, *words, expect=0, seconds=60, before=(), **options):
    """Runs the tool (never itself preloaded); its exit status must be expect. Returns the ended
    program.
    """
    proc = t.spawn([*before, t.tool, *words], preload=False,
                   name="rsock-" + str(words[0]).strip("-"), **options)
    try:
        t.wait(proc, seconds, expect)
    except Failure as failure:
        raise Failure(f"{failure}\n{proc.out()}{proc.err()}") from None
    return proc


def ask_json(t, *words, **options):
    """The same with --json, which goes before words that may be another program's."""
    proc = ask(t, words[0], "--json", *words[1:], **options)
    text = proc.out()
    t.check(text.count("\n") == 1 and text.endswith("\n"), f"not one line: {text[:300]!r}")
    return json.loads(text)


def says(t, text, *wanted):
    for want in wanted:
        t.check(want in text, f"no {want!r} in:\n{text}")


def redis(t, *, preload=True, before=(), env=None):
    port = t.free_port()
    server = t.spawn([*before, "redis-server", "--port", port, "--dir", "/tmp", *REDIS],
                     preload=preload, env=env,
                     name="server")
    t.listening(server, port)
    return server, port


def busy_client(t, port, *, preload=True, before=()):
    """redis-benchmark without end, on one connection."""
    return t.spawn([*before, "redis-benchmark", "-p", port, "-c", 1, "-n", 2_000_000_000, "-t",
                    "get", "-q"],
                   preload=preload, name="client")


def streams(t, pid):
    shown = ask_json(t, "stat", "--all", "--pid", pid)
    return [stream for stream in shown["streams"] if stream["open"] and stream["local"] != "-"]


def until_reason(t, pid, reason, seconds=40, count=1):
    """Waits until so many streams of a process have this reason; returns them."""
    def there():
        found = [stream for stream in streams(t, pid) if stream["reason"] == reason]
        return found if len(found) >= count else None
    return t.until(there, seconds, f"{count} streams of {pid} with reason {reason}")


def connected(port):
    """A client of the harness itself, which never has the library."""
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def readable_by_all(t):
    """Copies tool and library so that another user can read them as well; returns the library's
    path.
    """
    os.chmod(t.tmp, 0o755)
    for folder, source in (("bin", t.tool), ("lib", t.library)):
        os.makedirs(t.path("tree", folder), exist_ok=True)
        shutil.copy(source, t.path("tree", folder))
    t.tool = t.path("tree", "bin", os.path.basename(t.tool))
    return t.path("tree", "lib", os.path.basename(t.library))


def static_program(t):
    path = os.path.join(t.bin, "app_static_cat")
    if not os.path.exists(path):
        raise Failure("set RSOCK_TEST_BIN to the folder of app_static_cat (<build>/bin)")
    return path
