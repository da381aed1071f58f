#!/usr/bin/python3 -B
"""Every reason has a row: a pair of programs whose stream has it, about which stat, why and check
agree, and its cure.

Some reasons have their scenario in another script, which ELSEWHERE names. The case
every_reason_has_a_row checks that it is there, and that no reason is without a row.
"""
import json
import os

from lib.harness import PYTHON, case, main
from tool import AS_NOBODY, ask, ask_json, readable_by_all

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
OWN_SHM = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"]
OWN_PIDS = ["unshare", "-p", "-f", "--mount-proc", "--kill-child"]
OWN_USER = ["unshare", "-U", "-r"]


def preloaded(t, env=None):
    return ["env", f"LD_PRELOAD={t.library}",
            *(f"{name}={value}" for name, value in (env or {}).items())]


class Pair:
    """A server and a client of it, each with words before its command. Methods with ends: the ends
    whose stream has the reason.
    """

    def __init__(self, t, server=(), client=(), modes=("", ""), with_library=(True, True),
                 env=(None, None)):
        self.t, self.port = t, t.free_port()
        program = t.path("reasons_end.py")
        if not os.path.exists(program):
            os.chmod(t.tmp, 0o755)
            with open(os.path.join(HERE, "reasons_end.py")) as source, open(program, "w") as copy:
                copy.write(source.read())
            os.chmod(program, 0o644)
        self.procs, self.program = [], program
        for role, before, mode, has, more in zip(("serve", "connect"), (server, client), modes,
                                                 with_library, env):
            words = [*before, *(preloaded(t, more) if has else ["env"]), PYTHON, "-B", program,
                     role, self.port, mode]
            self.procs.append(t.spawn(words, preload=False, name=role, stdin="pipe"))
            if role == "serve":
                t.until(lambda: self.asked("why", f":{self.port}", expect=None)["processes"], 20,
                        "the server to listen")

    def another(self, mode):
        """Starts one more client."""
        words = [*preloaded(self.t), PYTHON, "-B", self.program, "connect", self.port, mode]
        return self.t.spawn(words, preload=False, name="another", stdin="pipe")

    def asked(self, *words, **options):
        return ask_json(self.t, *words, **options)

    def stat(self):
        """{end: reasons} of the open streams of the pair's port."""
        found = {"server": set(), "client": set()}
        for stream in self.asked("stat", "--all")["streams"]:
            if not stream["open"]:
                continue
            if stream["local"].endswith(f":{self.port}"):
                found["server"].add(stream["reason"])
            elif stream["peer"].endswith(f":{self.port}"):
                found["client"].add(stream["reason"])
        return found

    def why(self):
        """{end: reason} of the stream as `rsock why` says from the server's end, and the cure."""
        streams = self.asked("why", f":{self.port}", expect=None)["streams"]
        if not streams:
            return {}, ""
        return {"server": streams[0]["end"]["reason"],
                "client": streams[0]["other_end"]["reason"]}, streams[0]["cure"]

    def says(self, reason, ends, cure=None, check=None):
        """Waits until stat and why give the reason at these ends, and why gives the reason's cure;
        check must give it where the server is the cause.
        """
        t = self.t
        cures = {row["reason"]: row["cure"]
                 for row in json.loads(ask(t, "reasons", "--json").out())["reasons"]}

        def agreed():
            shown, (told, helps) = self.stat(), self.why()
            return all(shown[end] == {reason} and told.get(end) == reason for end in ends) and (
                reason == "direct" or helps == (cure or cures[reason]))
        try:
            t.until(agreed, 30, f"stat and why to say {reason}")
        except Exception as error:
            raise type(error)(f"{error}: stat {self.stat()}, why {self.why()}") from None
        if check:
            told = self.asked("check", "127.0.0.1", self.port, expect=0 if check == "direct" else 1)
            t.equal((told["reason"], told["accelerated"]), (check, check == "direct"), "check")
            if check != "direct":
                t.equal(told["cure"], cures[check], "check's cure")
        return self

    def end(self):
        for proc in self.procs:
            self.t.kill(proc)


def direct(t, **pair):
    """Applies the cure: both ends say that the stream is direct, and so does check."""
    Pair(t, **pair).says("direct", ("server", "client"), check="direct").end()


def by_mode(reason, foreseen=True):
    """A row for something that a program does to its connection: its own end gives the reason.

    foreseen: check can tell before the connection has carried anything.
    """
    def row(t):
        Pair(t, modes=(reason, "")).says(reason, ("server",),
                                         check=reason if foreseen else None).end()
        Pair(t, modes=("", reason)).says(reason, ("client",)).end()
        direct(t)
    return row


def not_earned(t):
    Pair(t, modes=("", "not-earned")).says("not-earned", ("server", "client")).end()
    # Its cure: a lower threshold, at both ends.
    low = {"RSOCK_EARN_CALLS": "2"}
    direct(t, env=(low, low))


def other_user(t):
    t.library = readable_by_all(t)
    Pair(t, server=AS_NOBODY).says("other-user", ("server", "client"), check="other-user").end()
    direct(t)


def namespaces(t):
    ends = ("server", "client")
    for words, reason in ((OWN_SHM, "other-mntns"), (OWN_PIDS, "other-pidns"),
                          (OWN_USER, "other-userns")):
        Pair(t, server=words).says(reason, ends, check=reason).end()
        Pair(t, client=words).says(reason, ends).end()
    # The cure: a mount namespace of the server's own that shares /dev/shm with the client.
    direct(t, server=["unshare", "-m"])


def no_peer(t):
    Pair(t, with_library=(True, False)).says("no-peer", ("server",),
                                             cure="Start it again with 'rsock run -- PROGRAM', or "
                                             "with LD_PRELOAD in its environment.").end()
    direct(t)


def disabled(t):
    """why finds it from the process, which has no records."""
    pair = Pair(t, env=({"RSOCK_DISABLE": "1"}, None))
    told = t.until(lambda: pair.why()[0].get("server") == "disabled" and pair.why(), 20,
                   "why to say disabled")
    t.equal(told[1], "Unset RSOCK_DISABLE and start it again.", "cure")
    t.equal(pair.asked("check", "127.0.0.1", pair.port, expect=1)["reason"], "disabled", "check")
    pair.end()
    direct(t)


def operator(t):
    """The end that was asked says so, and the other one that its peer has left; after promote both
    are direct again.
    """
    pair = Pair(t).says("direct", ("server", "client"))
    ask(t, "demote", "--all", f":{pair.port}", expect=None)
    t.until(lambda: pair.stat() == {"server": {"operator"}, "client": {"peer-fell-back"}} and
            pair.why()[0] == {"server": "operator", "client": "peer-fell-back"}, 30,
            "operator, and peer-fell-back")
    t.equal(pair.asked("check", "127.0.0.1", pair.port)["accelerated"], True,
            "check, of another stream")
    ask(t, "promote", "--all", f":{pair.port}", expect=None)
    pair.says("direct", ("server", "client")).end()


def inherited(t):
    """A program that was executed with the connection and an epoll set open."""
    pair = Pair(t, modes=("", "inherited"))

    def told():
        """The other end may not have earned promotion yet; then that is the cure."""
        ends, cure = pair.why()
        return ends.get("client") == "inherited" and cure.startswith(
            "None; sockets that a program opens")
    t.until(told, 20, "why to say inherited, and no cure")
    text = ask(t, "why", f":{pair.port}", expect=1).out()
    t.check("got the socket through exec" in text and "raw system calls" in text, text)
    pair.end()


def raw_calls(t):
    """A program that bypasses libc, as Go's runtime does: its process has the library, and no
    record.
    """
    program = os.path.join(t.bin, "tool_raw_end")
    pair = Pair(t)
    t.kill(pair.procs[1])
    t.spawn([*preloaded(t), program, pair.port], preload=False, name="raw")
    told = t.until(lambda: pair.why()[0].get("client") == "raw-calls" and pair.why(), 20,
                   "why to say raw-calls")
    t.check(told[1].startswith("None: the library sees only libc's calls"), f"cure: {told}")
    pair.end()


# Reasons whose scenario needs what another script has: hosts, devices, filters. That script names
# the reason.
ELSEWHERE = {
    **{reason: "test/tool/tool_check.py" for reason in ("io-uring", "seccomp")},
    **{reason: "test/tool/tool_why.py" for reason in ("other-netns", "no-rsockd")},
    **{reason: "test/net/net_local.py"
       for reason in ("remote", "no-rnic", "policy", "peer-policy", "no-pmsp")},
    **{reason: "test/net/net_rdma.py" for reason in ("mapped", "soft-rnic", "not-holder")},
    "other-source": "test/rdma/rdma_hostile.py",
    "version": "test/skew/skew_versions.py",
    "rsockd-version": "test/skew/skew_versions.py",
    "same-process": "test/net/net_no_shm.py",
    "peer-full": "test/net/net_ledger.py",
    "no-registry": "test/fault/fault_registry.py",
    **{reason: "test/rdma/rdma_streams.py" for reason in ("ring-full", "link-error", "closed")},
    **{reason: "test/rdma/rdma_faults.py" for reason in ("link-broken", "peer-dead")},
    "aio": "test/app/files.c",
    "epoll-peers": "test/unit/test_epoll_links.c",
    **{reason: "test/tool/tool_causes.py" for reason in (
        "epoll-closed", "epoll-shared", "epoll-tag", "exec", "fastopen", "fd-limit", "ktls",
        "memory",
        "position-mismatch", "splice", "unsupported", "unverified")},
}
# Reasons that need a race, or an address translator that not every kernel has: no script produces
# them. Any other reason, and each new one, needs a row above.
NOWHERE = {"peer-denied", "translated"}
ROWS = {
    "direct": direct,
    "disabled": disabled,
    "inherited": inherited,
    "no-peer": no_peer,
    "not-earned": not_earned,
    "operator": operator,
    "peer-fell-back": operator,
    "other-user": other_user,
    **{reason: namespaces for reason in ("other-mntns", "other-pidns", "other-userns")},
    "raw-calls": raw_calls,
    **{mode: by_mode(mode) for mode in ("async", "epoll-exclusive", "messages", "oob", "passed",
                                        "shared-holder", "stdio",
                                        "zerocopy")},
}


@case(60)
def every_reason_has_a_row(t):
    told = {row["reason"] for row in json.loads(ask(t, "reasons", "--json").out())["reasons"]}
    t.equal(told, {*ROWS, *ELSEWHERE, *NOWHERE}, "reasons with a row")
    t.equal(len(told), len(ROWS) + len(ELSEWHERE) + len(NOWHERE), "each has one")
    for reason, script in ELSEWHERE.items():
        with open(os.path.join(ROOT, script)) as file:
            text = file.read()
        t.check(f'"{reason}"' in text or "REASON_" + reason.upper().replace("-", "_") in text,
                f"{script} says nothing of {reason}")


def as_case(row, name):
    def run(t):
        row(t)
    run.__name__, run.__module__ = name, __name__
    case(150)(run)


for row in dict.fromkeys(ROWS.values()):
    as_case(row, next(reason for reason, its in ROWS.items() if its is row).replace("-", "_"))

if __name__ == "__main__":
    raise SystemExit(main())
