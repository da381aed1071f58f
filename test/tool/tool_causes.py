#!/usr/bin/python3 -B
"""The reasons of tool_reasons.py that need more than an option of the connection: their causes, and
their cures.
"""
import os

from lib.harness import PYTHON, case, main
from tool_reasons import HERE, Pair, by_mode, direct

WITHOUT_NETLINK = [PYTHON, "-B", os.path.join(HERE, "without_netlink.py")]


@case(150)
def options(t):
    """What a program asks of its connection."""
    for mode in ("ktls", "unsupported", "splice"):
        by_mode(mode)(t)
    Pair(t, modes=("", "fastopen")).says("fastopen", ("client",)).end()


@case(150)
def epoll_closed(t):
    by_mode("epoll-closed", foreseen=False)(t)


@case(150)
def epoll_shared(t):
    by_mode("epoll-shared", foreseen=False)(t)


@case(150)
def executed(t):
    by_mode("exec", foreseen=False)(t)


@case(150)
def fd_limit(t):
    by_mode("fd-limit", foreseen=False)(t)


@case(150)
def memory(t):
    by_mode("memory", foreseen=False)(t)


@case(150)
def position_mismatch(t):
    by_mode("position-mismatch", foreseen=False)(t)


@case(150)
def unverified(t):
    Pair(t, server=WITHOUT_NETLINK).says("unverified", ("server",)).end()
    Pair(t, client=WITHOUT_NETLINK).says("unverified", ("client",)).end()
    direct(t)


@case(150)
def epoll_tag(t):
    """A second client's connection is registered with the data that the set has for the first one.
    """
    pair = Pair(t, modes=("epoll-tag", "")).says("direct", ("server", "client"))
    second = pair.another("")
    t.until(lambda: "epoll-tag" in pair.stat()["server"], 30, "stat to say epoll-tag")
    told = pair.asked("why", f":{pair.port}", expect=1)["streams"]
    t.check([stream["end"]["reason"] for stream in told].count("epoll-tag") >= 1, f"why: {told}")
    t.kill(second)
    pair.end()
    direct(t, modes=("epoll-common", ""))  # in a set, with data of its own


if __name__ == "__main__":
    raise SystemExit(main())
