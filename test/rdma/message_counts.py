"""Counts what a message of a client costs, whatever the device: instructions and system calls of
its thread, work requests and completions of its process."""
import time

from guest import ROOT
from lib import callgrind
from lib.processes import Failure

RSPERF = f"{ROOT}/bin/rsperf"
SETTLE_S, MEASURE_S, DIRECT_S = 6, 10, 90
OUT = "/run/callgrind.out"
# Of a process's "verbs" in `rsock stat --json`.
COUNTS = ("writes", "inlined", "with_imm", "signalled", "reads", "completions", "send_completions",
          "events")


def look(guest, pid):
    """The counters of that process's rails, and the bytes that it has sent by ring."""
    stat = guest.stat()
    for process in stat["processes"]:
        if process["pid"] == pid:
            return {**process["verbs"], "ring": sum(stream["tx_ring_bytes"]
                                                    for stream in stat["streams"]
                                                    if stream["pid"] == pid)}
    raise Failure(f"process {pid} has no statistics")


def direct(guest, pid):
    return any(stream["pid"] == pid and stream["tx"] == "ring"
               for stream in guest.stat()["streams"])


def count(guest, options, env, size, rsock=True):
    """{what: number for each message of @size bytes} of a client of rsperf with those options, from
    when it has settled; the server is there. rsock: it is preloaded, and has to be on the ring. A
    message of a round trip is both ways."""
    guest.sh(f"rm -f {OUT}*")
    client = guest.start(
        ["valgrind", "-q", "--tool=callgrind", "--separate-threads=yes", "--collect-systime=yes",
         f"--callgrind-out-file={OUT}", RSPERF, "client", *options, "--time", 600, "--warmup", 0,
         "--json"], env=env)
    before = after = None
    try:
        if rsock:
            guest.until(lambda: direct(guest, client.pid), DIRECT_S, "a direct stream")
        time.sleep(SETTLE_S)
        if rsock:
            before = look(guest, client.pid)
        guest.sh(f"callgrind_control --zero {client.pid} >&2")
        time.sleep(MEASURE_S)
        guest.sh(f"callgrind_control --dump {client.pid} >&2")
        if rsock:
            after = look(guest, client.pid)
    finally:
        client.kill()
        client.wait()
    threads = [callgrind.Profile(guest.read(path).decode(errors="replace"))
               for path in guest.sh(f"ls {OUT}.*").split()]
    thread = max(threads, key=lambda profile: profile.calls["send"])
    messages = thread.calls["send"]
    if messages < 20:
        raise Failure(f"{messages} messages in {MEASURE_S} s")
    per = {"messages": messages, "instructions": thread.instructions / messages,
           "system calls": thread.system_calls / messages}
    if rsock:
        sent = (after["ring"] - before["ring"]) / size
        per.update({what: (after[what] - before[what]) / sent for what in COUNTS})
    return per
