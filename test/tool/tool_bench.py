#!/usr/bin/python3 -B
"""rsock bench: a command that can gain does, one without streams never does, one that fails is
reported.
"""

from lib.harness import PYTHON, case, main
from tool import ask, ask_json, redis, says


def consistent(t, told, rounds):
    low, high = told["interval"]
    t.check(low <= told["gain"] <= high, f"gain outside its interval: {told}")
    t.equal(told["verdict"], "faster" if low > 1 else "slower" if high < 1 else "no gain",
            "verdict")
    for way in ("plain", "preloaded"):
        times = told[way + "_rounds_s"]
        t.equal(len(times), rounds, f"rounds, {way}")
        t.check(min(times) <= told[way + "_s"] <= max(times), f"median of {way}: {told}")


@case(120)
def a_client_of_an_accelerated_server(t):
    _server, port = redis(t)
    command = ["redis-benchmark", "-p", port, "-c", 1, "-n", 4000, "-t", "get", "-q"]
    told = ask_json(t, "bench", "--rounds", 6, "--", *command, expect=None)
    consistent(t, told, 6)
    t.check(told["promoted"] >= 6 and told["ring_bytes"] > 6 * 100_000,
            f"was not accelerated: {told}")
    text = ask(t, "bench", "--rounds", 6, *command, expect=None).out()
    says(t, text, "6 rounds each", "with librsock.so", "times as fast (95 %:", "promoted")


@case(60)
def nothing_to_gain(t):
    told = ask_json(t, "bench", "--rounds", 7, "sleep", "0.02", expect=1)
    consistent(t, told, 7)
    t.equal((told["streams"], told["promoted"]), (0, 0), "streams")
    says(t, ask(t, "bench", "--rounds", 6, "--", "sleep", "0.02", expect=1).out(), "no TCP streams")
    proc = ask(t, "bench", "--rounds", 6, "--output", "--json", "echo", "heard", expect=1)
    t.equal(proc.err(), "heard\n" * 14, "each run's output")


@case(60)
def sigchld_is_ignored(t):
    """The tool was started with it ignored, and so is the command."""
    command = [PYTHON, "-c",
               "import signal; assert signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN"]
    told = ask_json(t, "bench", "--rounds", 6, "--", *command, expect=None,
                    before=["env", "--ignore-signal=CHLD"])
    consistent(t, told, 6)


@case(60)
def what_cannot_be_compared(t):
    says(t, ask(t, "bench", "false", expect=3).err(), "status 1",
         "there is nothing to compare")
    ask(t, "bench", "--", "no-such-program", expect=127)
    ask(t, "bench", "/etc/passwd", expect=126)
    ask(t, "bench", expect=2)
    ask(t, "bench", "--rounds", 5, "true", expect=2)
    # It fails only with the library: that is an answer.
    script = 'case "$LD_PRELOAD" in *librsock.so*) exit 9;; esac'
    says(t, ask(t, "bench", "sh", "-c", script, expect=1).err(),
         "status 9 when librsock.so is preloaded")
    # With librsock.so in the environment, the run without it really has none.
    ask(t, "bench", "--rounds", 6, "sh", "-c",
        'test -z "$RSOCK_DISABLE" || case "$LD_PRELOAD" in *librsock.so*) exit 9;; esac',
        env={"LD_PRELOAD": t.library}, expect=1)


if __name__ == "__main__":
    raise SystemExit(main())
