#!/usr/bin/python3
"""What outlives rsockd: mappings that it remembers, devices that are drained. It is killed or
ended; its file is damaged or missing.
"""
import os
import signal
import sys
import threading
import time

from lib.harness import case, main
from net_rsockd import FIXED, SERVICE, asking, serving
from netlab import Lab


def lasting(host, **more):
    return serving(host, services=[{"name": "lasting", "ports": [str(SERVICE)],
                                    "rdma-port": str(FIXED), "pm-time": "lasting"},
                                   {"name": "minutes", "ports": ["6000-6099"], "pm-time": "200s"},
                                   {"name": "short", "ports": ["7000"], "pm-time": "2s"},
                                   {"name": "once", "ports": ["7001"]}], **more)


def saved(t, host):
    t.until(lambda: host.get("/v1/status")["state"]["saved"], 20, "the state to be on the disk")


def ends(t, host, how):
    if how == signal.SIGKILL:
        saved(t, host)
        t.kill(host.daemon)
    else:
        t.stop(host.daemon, how)
    t.equal(os.path.exists(os.path.join(host.state, "state")), True, "a file")


def from_memory(t, host, to, port):
    """Checks that it is answered from memory, without any message."""
    before = host.counts("client")
    answer = host.map(to, port)
    after = host.counts("client")
    return (answer["outcome"] == "mapped" and after["cached"] == before["cached"] + 1
            and after["sends"] == before["sends"])


@case(timeout=60)
def mappings_are_remembered(t):
    a, b = Lab(t, 2).hosts
    a.start(**asking(a))
    b.start(**lasting(b))
    ports = (SERVICE, 6000, 7000, 7001)
    for port in ports:
        t.equal(a.map(b, port)["outcome"], "mapped", port)
    mapped = time.monotonic()
    rdma = a.map(b, 6000)["rdma"]
    for how in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
        ends(t, a, how)
        a.restart()
        t.check(a.get("/v1/status")["state"]["taken"] in (2, 3),
                "of those with a time of their own")
        t.check(from_memory(t, a, b, SERVICE), f"lasting, after {how}")
        t.check(from_memory(t, a, b, 6000), f"minutes, after {how}")
        t.equal(a.map(b, 6000)["rdma"], rdma, "its address")
        t.check(not from_memory(t, a, b, 7001), "for one transaction")
    ends(t, a, signal.SIGTERM)
    t.until(lambda: time.monotonic() > mapped + 2, 10, "the short one's time to be over")
    a.restart()
    t.check(not from_memory(t, a, b, 7000), "its time was over meanwhile")


@case(timeout=60)
def a_drained_device_stays_so(t):
    (a,) = Lab(t, 1).hosts
    rnics = [{"name": "r0", "addresses": [a.ip]},
             {"name": "r1", "ports": [{"name": "1", "addresses": ["10.77.1.1"]},
                                      {"name": "2", "addresses": ["10.77.1.2"]}]}]
    for address in ("10.77.1.1", "10.77.1.2"):
        a.add_address(address)
    a.start(rnics=rnics)
    for device, on in (("r0", True), ("r1", True), ("r1/2", False)):
        a.post("/v1/drain", {"device": device, "on": on})
    for how in (signal.SIGKILL, signal.SIGTERM):
        ends(t, a, how)
        a.restart()
        t.equal([a.device(name)["state"] for name in ("r0", "r1/1", "r1/2")],
                ["draining", "draining", "up"], how)
    # Not configured for a while.
    a.write_config(rnics=rnics[1:])
    a.post("/v1/reload", {})
    a.write_config(rnics=rnics)
    a.post("/v1/reload", {})
    t.equal(a.device("r0")["state"], "draining", "when it is there again")
    t.equal(a.get("/v1/status")["state"]["path"], a.state,
            "the path is not the configuration's, which is gone")
    a.post("/v1/drain", {"device": "r0", "on": False})
    ends(t, a, signal.SIGKILL)
    a.restart()
    t.equal(a.device("r0")["state"], "up", "undone, and that stays, too")


@case(timeout=60)
def a_damaged_file(t):
    a, b = Lab(t, 2).hosts
    a.start(**asking(a))
    b.start(**lasting(b))
    t.equal(a.map(b, SERVICE)["outcome"], "mapped", "first")
    ends(t, a, signal.SIGKILL)
    path = os.path.join(a.state, "state")
    with open(path, "rb") as file:
        good = file.read()
    for bad, says in ((good[:-1], "hash"), (good[:40], "short"), (b"", "short"),
                      (b"x" * 200, "no file of this kind"),
                      (good[:8] + b"\x09" + good[9:], "version"),
                      (good[:70] + bytes([good[70] ^ 1]) + good[71:], "hash"),
                      (good + b"x", "hash")):
        with open(path, "wb") as file:
            file.write(bad)
        a.restart()
        t.check(says in a.daemon.err() and path in a.daemon.err(), f"{says}: {a.daemon.err()}")
        t.equal(a.get("/v1/status")["state"]["taken"], 0, "what is remembered")
        t.kill(a.daemon)
    for make in (lambda: os.mkdir(path), lambda: os.symlink("/etc/passwd", path),
                 lambda: os.mkfifo(path)):
        os.unlink(path) if not os.path.isdir(path) else os.rmdir(path)
        make()
        a.restart()
        t.check(path in a.daemon.err(), a.daemon.err())
        t.kill(a.daemon)
    os.unlink(path)
    a.restart()
    t.equal(a.map(b, SERVICE)["outcome"], "mapped", "it goes on")
    ends(t, a, signal.SIGKILL)
    a.restart()
    t.check(from_memory(t, a, b, SERVICE), "and remembers again")


@case(timeout=60)
def nowhere_to_keep_it(t):
    a, b = Lab(t, 2).hosts
    b.start(**lasting(b))
    a.start(**asking(a, state="/nowhere/at/all"))
    t.check("/nowhere/at/all" in a.daemon.err(), a.daemon.err())
    t.equal(a.map(b, SERVICE)["outcome"], "mapped", "it works")
    t.equal(a.get("/v1/status")["state"]["saved"], False, "and says so")
    t.stop(a.daemon)
    os.makedirs(a.state, exist_ok=True)
    os.chmod(t.tmp, 0o755)
    a.start(**asking(a, user="nobody"))  # the directory belongs to another user
    t.equal(a.map(b, SERVICE)["outcome"], "mapped", "it works")
    t.until(lambda: "cannot be written" in a.daemon.err(), 10, "a complaint")
    t.check(a.get("/v1/status")["state"]["failures"] > 0, "failures")
    os.chown(a.state, 65534, 65534)
    saved(t, a)  # though nothing has changed since
    t.equal(a.map(b, 6000)["outcome"], "mapped", "once more")
    saved(t, a)
    t.equal(sorted(os.listdir(a.state)), ["state"], "files")


@case(timeout=120)
def killed_at_any_time(t):
    """However it dies, the file is the old or the new one, and never a mixture."""
    a, b = Lab(t, 2).hosts
    b.start(**lasting(b))
    a.start(**asking(a))
    for turn in range(10):
        stop = threading.Event()

        def busy(stop=stop):
            number = 0
            while not stop.is_set():
                try:
                    a.ask("POST", "/v1/drain", {"device": "rnic0", "on": number % 2 == 0})
                except OSError:
                    return
                number += 1
        threads = [threading.Thread(target=busy) for _ in range(2)]
        for thread in threads:
            thread.start()
        t.until(lambda: a.get("/v1/status")["state"]["writes"] > turn + 1, 20, "some writes")
        t.kill(a.daemon)
        stop.set()
        for thread in threads:
            thread.join()
        a.restart()
        t.equal(a.daemon.err(), "", "what it has to say of the file")


if __name__ == "__main__":
    sys.exit(main())
