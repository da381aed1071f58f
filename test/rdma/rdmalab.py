#!/usr/bin/python3
"""Two hosts with RDMA devices (Soft-RoCE), for tests: QEMU guests with a link between them. The
rdma_*.py scripts run in it; README.md says more.

A script is written as those of test/net: functions marked with @case that get a Test of the
harness, and lab(t).guests. The guests boot once for a script, or are those that RSOCK_RDMA_LAB
names (a folder of `rdmalab.py up`).

By hand:
  rdmalab.py up FOLDER [--build DIR] [--guests 1] [--vcpus N]    boots guests, which stay
  rdmalab.py run FOLDER 1 [--preload] [--user N] [--env A=B] [--stdin] -- PROGRAM...
                                exit status is the program's
  rdmalab.py sync FOLDER BUILD_DIR      copies what was built (and test/) into the guests
  rdmalab.py hosts FOLDER FILE [--build DIR]    uses existing hosts, in place of guests: real.py
  rdmalab.py shell FOLDER N LINE        a line of shell in a guest, with our stdin and stdout
  rdmalab.py reboot FOLDER N | console FOLDER N | status FOLDER | down FOLDER
"""
import argparse
import atexit
import concurrent.futures
import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

import clocks
from guest import CASE, ROOT, SCALE, Guest
from lib import harness
from lib.harness import Failure
from lib.stats import Stats
from machine import Gone, Machine
from real import RealMachine, checked

HERE = os.path.dirname(os.path.abspath(__file__))

BOOT = 240  # seconds; 12 on a quiet machine
BOOTS = 4  # at most so many more, if a clock is wrong
DEATHS = 2  # at most so many cases of a script run once more because a guest's kernel died
NOT_COPIED = ("unit_", "replay_", "fuzz_")  # programs of the build that are not needed in guests
SOURCE = os.path.dirname(HERE)
SOURCE_LEFT_OUT = ("fuzz", "unit", "model", "guard", "__pycache__")


class Lab:
    """Guests, and the folder that they share with this machine. options: see boot()."""

    def __init__(self, folder=None, stays=False):
        self.folder = os.path.abspath(folder) if folder else tempfile.mkdtemp(prefix="rsock-lab-")
        self.own = folder is None
        self.stays = stays
        self.guests, self.options = [], {}
        # whether a kernel died in the case that failed; names of the cases that ran once more for
        # it
        self.died, self.deaths = False, []
        self.library, self.tool, self.bin = (f"{ROOT}/lib/librsock.so", f"{ROOT}/bin/rsock",
                                             f"{ROOT}/bin")
        if len(self.folder) > 80:
            raise Failure(f"{self.folder} is too long for the name of a socket in it")

    def __getitem__(self, number):
        """Guest 1 or 2."""
        return self.guests[number - 1]

    # ---- life ----------------------------------------------------------------------------------
    def boot(self, guests=2, vcpus=1, memory=1536, links=1):
        """Boots the guests. vcpus, memory (MiB): of each; links: number of links between two
        guests, each with an RDMA device.
        """
        if guests not in (1, 2):
            raise Failure("one guest or two")
        os.makedirs(self.folder, exist_ok=True)
        self.options = {"guests": guests, "vcpus": vcpus, "memory": memory,
                        "links": links if guests == 2 else 0}
        with open(self.path("options"), "w") as file:
            json.dump(self.options, file)
        for name in ("start", "agent.py"):
            shutil.copy(os.path.join(HERE, "inside", name), self.path(name))
        kernel = subprocess.run([os.path.join(HERE, "guests.sh")], stdout=subprocess.PIPE,
                                text=True, check=False)
        if kernel.returncode:
            raise Failure("no kernel for guests; guests.sh says why")
        self.make_guests()
        try:
            self.start(kernel.stdout.strip())
        except BaseException:
            self.stop()
            raise
        return self

    def start(self, kernel):
        self.kernel = kernel
        # A connected pair of sockets for each link: a QEMU that listens for its peer would block,
        # all of it, in a send that a guest whose link is down does not take.
        links = [socket.socketpair() for _ in range(self.options["links"])]
        for guest in self.guests:
            ends = [pair[guest.number - 1] for pair in links]
            guest.machine.start(kernel, **{**self.options, "stays": self.stays}, ends=ends)
            for end in ends:
                end.close()
        self.meet()
        self.set_clocks()

    def set_clocks(self):
        """Boots guests again whose clock is wrong."""
        boots = 0
        while wrong := clocks.wrong(self.guests):
            if boots == BOOTS:
                raise Failure(f"clocks are wrong after {boots} boots more")
            boots += 1
            print(f"{[guest.name for guest in wrong]}: the clock is wrong; booted again",
                  flush=True)
            self.boot_again(wrong)

    def boot_again(self, guests):
        for guest in guests:
            guest.machine.reset()
        for guest in guests:
            guest.connect(BOOT)
            guest.until(lambda guest=guest: guest.channel.ask("started")["started"], BOOT,
                        f"{guest.name} to be set up")
            guest.machine.settled()

    def meet(self):
        """Waits until all guests are up. It waits for all at once, so that a guest that is gone is
        noticed at once.
        """
        deadline = time.monotonic() + BOOT
        for guest in self.guests:
            guest.connect(max(1, deadline - time.monotonic()))
        for guest in self.guests:
            guest.until(lambda guest=guest: guest.channel.ask("started")["started"], BOOT,
                        f"{guest.name} to be set up")

    def attach(self):
        """Attaches to guests that are up, and stay."""
        self.stays = True
        with open(self.path("options")) as file:
            self.options = json.load(file)
        self.make_guests()
        for guest in self.guests:
            guest.machine.check()
        self.meet()
        return self

    def make_guests(self):
        hosts = self.options.get("hosts")
        if not hosts:
            self.guests = [Guest(self, number, Machine(self.folder, number))
                           for number in range(1, self.options["guests"] + 1)]
            return
        self.guests = []
        for number, host in enumerate(hosts, 1):
            guest = Guest(self, number, RealMachine(self.folder, number, host["reach"]))
            guest.ip, guest.ip6, guest.netdev, guest.rnic = (host["ip"], host["ip6"],
                                                             host["netdev"], host["rnic"])
            guest.ip_1, guest.netdev_1 = "", ""
            self.guests.append(guest)

    def reboot(self, *numbers):
        """Reboots those guests, or all, whatever state they are in, and copies the build into them
        again.
        """
        guests = [guest for guest in self.guests if guest.number in numbers or not numbers]
        if all(guest.machine.pid() for guest in self.guests):
            self.boot_again(guests)
            self.set_clocks()
        else:
            self.stop_machines()
            guests = self.guests
            self.start(self.kernel_of())
        if os.path.exists(self.path("build")):
            with open(self.path("build")) as file:
                self.sync(file.read(), guests)

    def kernel_of(self):
        return subprocess.run([os.path.join(HERE, "guests.sh")], stdout=subprocess.PIPE, text=True,
                              check=True).stdout.strip()

    def stop_machines(self):
        for guest in self.guests:
            if guest.channel:
                guest.channel.close()
            guest.machine.stop()

    def stop(self):
        self.stop_machines()
        if self.own and not os.environ.get("RSOCK_TEST_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def detach(self):
        for guest in self.guests:
            if guest.channel:
                guest.channel.close()
            if not guest.machine.share:
                guest.machine.stop()

    # ---- what guests get -----------------------------------------------------------------------
    def path(self, name):
        return os.path.join(self.folder, name)

    @contextlib.contextmanager
    def shared(self, name=None):
        """A file that this machine and the guests see, removed at the end: its path here, and its
        path there.
        """
        name = name or f"to-guest.{os.getpid()}.{threading.get_ident()}.{time.monotonic_ns()}"
        try:
            yield self.path(name), name
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path(name))

    def wanted(self, build):
        """{path below ROOT: file here} of all that the guests shall have."""
        found = {}
        for part in ("bin", "lib"):
            for at, _, names in os.walk(os.path.join(build, part)):
                for name in names:
                    path = os.path.join(at, name)
                    if not name.startswith(NOT_COPIED) and not name.endswith((".a", ".o")):
                        found[os.path.relpath(path, build)] = path
        for at, folders, names in os.walk(SOURCE):
            folders[:] = [name for name in folders if name not in SOURCE_LEFT_OUT]
            links = [name for name in folders if os.path.islink(os.path.join(at, name))]
            for name in names + links:
                path = os.path.join(at, name)
                found[os.path.join("test", os.path.relpath(path, SOURCE))] = path
        if "lib/librsock.so" not in found or "bin/rsock" not in found:
            raise Failure(f"{build} has no lib/librsock.so and bin/rsock")
        return found

    def synced(self, guest):
        """What a guest has: {path: [size, modification time]}, for this boot."""
        try:
            with open(guest.machine.path("synced")) as file:
                kept = json.load(file)
            return kept["files"] if kept["boot"] == guest.channel.boot else {}
        except (OSError, ValueError, KeyError):
            return {}

    def write_synced(self, guest, files):
        with open(guest.machine.path("synced"), "w") as file:
            json.dump({"boot": guest.channel.boot, "files": files}, file)

    def sync(self, build, guests=None):
        """Copies what changed of a build (bin, lib) and of test/ to ROOT in the guests; returns the
        number of files.
        """
        build = os.path.abspath(build)
        found = self.wanted(build)
        now = {}
        for name, path in found.items():
            state = os.stat(path)
            now[name] = [state.st_size, state.st_mtime_ns]
        todo = guests or self.guests
        with concurrent.futures.ThreadPoolExecutor() as pool:
            copied = sum(pool.map(lambda guest: self.sync_one(guest, found, now), todo))
        with open(self.path("build"), "w") as file:
            file.write(build)
        return copied

    def sync_one(self, guest, found, now):
        had = self.synced(guest)
        changed = [name for name in found if had.get(name) != now[name]]
        gone = [f"{ROOT}/{name}" for name in had if name not in now]
        if gone:
            guest.run(["/usr/bin/xargs", "-0", "rm", "-f"], stdin="\0".join(gone), expect=0)
        if changed:
            with self.shared() as (path, name):
                with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
                    for member in changed:
                        archive.add(found[member], member, filter=readable)
                at = f"/run/lab/{name}"
                if not guest.machine.share:
                    at = f"/run/rsock-lab/{name}"
                    guest.put(path, at)
                guest.sh(f"mkdir -p {ROOT}; tar -x -b 1000 -f {at} -C {ROOT}; case {at} in "
                         f"/run/rsock-lab/*) rm {at} ;; esac")
        self.write_synced(guest, now)
        return len(changed)


def readable(member):
    """Makes it owned by root in the guest, and readable for every user."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mode |= 0o444
    return member


# ---- cases -------------------------------------------------------------------------------------
LAB = None
OPTIONS = {}


class GuestStats(Stats):
    """What librsock says of its streams in all guests, with the interface of harness.Stats; pids of
    guest N are increased by N0000000.
    """

    def __init__(self, test, the_lab):
        super().__init__(test, "")
        self.lab, self.done = the_lab, False

    def sample(self):
        if not self.test.library or self.done:
            return
        for guest in self.lab.guests:
            if guest.machine.wedged:
                continue
            texts = [("stat in " + guest.name,
                      guest.run([self.lab.tool, *self.words, "--all"], expect=0).raw_out)]
            texts += guest.folder(f"{CASE}/stat").items()
            for source, text in texts:
                # without the rest of a line that is being written
                for line in text.decode().split("\n")[:-1]:
                    self.take_of(guest, line, source)

    def take_of(self, guest, line, source):
        try:
            shown = json.loads(line)
            for record in shown["streams"]:
                record["pid"] = int(record["pid"]) + guest.number * 10_000_000
        except (ValueError, KeyError, TypeError) as error:
            self.trouble.append(f"{source}: not the promised JSON ({error}): {line[:200]}")
            return
        self.take(json.dumps(shown), source)


def lab(_t=None):
    return LAB


LONG = []
ALL = {}  # (module, name) -> function, timeout


def case(timeout, long=False):
    """The harness's case(); timeout in seconds, on a machine that is not busy otherwise. What a
    case leaves in the guests is ended after it; a guest that it wedged boots anew. long: only with
    RSOCK_RDMA_LONG=1, or by its name.
    """
    def register(function):
        if long:
            LONG.append(function.__name__)
        @functools.wraps(function)
        def wrapped(t):
            if any(guest.machine.wedged for guest in LAB.guests):
                raise Failure("a guest that an earlier case wedged did not come back")
            try:
                attempt(t, function)
            except Failure as failure:
                if (not LAB.died or len(LAB.deaths) >= DEATHS or function.__name__ in LAB.deaths
                    or harness.STOPPED):
                    raise
                LAB.deaths.append(function.__name__)
                print(f"FAIL {function.__name__}: {failure}\n--- a guest's kernel died: once more",
                      file=sys.stderr)
                t.not_direct.clear()
                signal.alarm(timeout)
                attempt(t, function)
        ALL[function.__module__, function.__name__] = (wrapped, timeout)
        return harness.case(timeout)(wrapped)
    return register


def attempt(t, function):
    t.stats = GuestStats(t, LAB)
    LAB.died = False
    try:
        for guest in LAB.guests:
            guest.begin_case()
        function(t)
        t.stats.sample()
        t.stats.done = True
        for guest in LAB.guests:
            guest.end_case()
    except BaseException:
        signal.alarm(0)
        for guest in LAB.guests:
            guest.report(sys.stderr)
        clean_up()
        raise


def borrow(script, *names):
    """Adds cases of another script to the program's own."""
    for name in names:
        harness.CASES[name] = ALL[script, name]


def clean_up():
    """After a case that failed: restores guests to the state that a case expects."""
    bad = []
    for guest in LAB.guests:
        try:
            guest.machine.check()
        except Gone:
            LAB.died = True
        with contextlib.suppress(Failure, OSError):
            guest.end_case()
        guest.machine.wedged = guest.machine.wedged or not alive(guest)
        if guest.machine.wedged:
            bad.append(guest.number)
    # when the script is being ended, the guests may be ending too, or others may be booting there
    if bad and not harness.STOPPED:
        print(f"--- boots anew: {bad}", file=sys.stderr)
        with contextlib.suppress(Failure):
            LAB.reboot(*bad)


def alive(guest):
    try:
        return guest.channel.ask("started", seconds=30)["started"]
    except (Failure, OSError):
        return False


def boot(**options):
    """Boots the guests; once more if a guest's kernel dies before the first case."""
    global LAB
    try:
        LAB.boot(**options)
    except Gone as gone:
        print(f"--- {gone}: boots once more", file=sys.stderr)
        LAB = Lab()
        LAB.boot(**options)
    atexit.register(LAB.stop)


def main(**options):
    """Replaces the harness's main(): boots, runs the cases, ends the guests. options: Lab.boot()'s.
    """
    global LAB
    if not os.environ.get("RSOCK_RDMA_LONG"):
        for name in LONG:
            if name not in sys.argv:
                harness.CASES.pop(name, None)
    if (os.environ.get("RSOCK_TEST_FAIL") or "--list" in sys.argv or "-h" in sys.argv
        or "--help" in sys.argv):
        return harness.main()
    library = os.environ.get("LIBRSOCK", "")
    if not library or library == "none":
        print("set LIBRSOCK and RSOCK_TOOL", file=sys.stderr)
        return 2
    build = os.path.dirname(os.path.dirname(os.path.abspath(library)))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    up = os.environ.get("RSOCK_RDMA_LAB")
    try:
        LAB = Lab(up)
        if up:
            atexit.register(LAB.detach)
            LAB.attach()
            for name, wanted in {"guests": 2, "vcpus": 1, **options}.items():
                if LAB.options[name] != wanted and not (name == "vcpus" and "hosts" in LAB.options):
                    raise Failure(f"{up} has {name} {LAB.options[name]}, and this script wants "
                                  f"{wanted}")
        else:
            boot(**options)
        ready = time.monotonic()
        LAB.sync(build)
    except Failure as failure:
        print(f"FAIL no guests: {failure}", file=sys.stderr)
        return harness.EXIT_WRONG
    print(f"guests up in {ready - began:.1f} s, build copied in {time.monotonic() - ready:.1f} s",
          flush=True)
    harness.LASTING.update(guest.machine.popen.pid for guest in LAB.guests if guest.machine.popen)
    status = harness.main()
    if LAB.deaths:
        print(f"ran once more, since a guest's kernel died: {LAB.deaths}", flush=True)
    return status


# ---- by hand -----------------------------------------------------------------------------------
def command_up(words):
    parser = argparse.ArgumentParser(prog="rdmalab.py up")
    parser.add_argument("folder")
    parser.add_argument("--build", help="a build folder to copy")
    for name, default in (("guests", 2), ("vcpus", 1), ("memory", 1536), ("links", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args(words)
    if any(Machine(os.path.abspath(given.folder), number).pid() for number in (1, 2)):
        raise Failure(f"guests are up in {given.folder}")
    began = time.monotonic()
    the_lab = Lab(given.folder, stays=True)
    the_lab.boot(given.guests, given.vcpus, given.memory, given.links)
    print(f"up in {time.monotonic() - began:.1f} s")
    if given.build:
        print(f"{the_lab.sync(given.build)} files copied, {time.monotonic() - began:.1f} s")
    return 0


def command_run(words):
    if "--" not in words:
        raise Failure("rdmalab.py run FOLDER N [options] -- PROGRAM...")
    cut = words.index("--")
    parser = argparse.ArgumentParser(prog="rdmalab.py run")
    parser.add_argument("folder")
    parser.add_argument("number", type=int)
    parser.add_argument("--preload", action="store_true", help="with librsock")
    parser.add_argument("--user", type=int)
    parser.add_argument("--env", action="append", default=[], metavar="A=B")
    parser.add_argument("--stdin", action="store_true",
                        help="hand over our standard input, all of it first")
    parser.add_argument("--keep", action="store_true",
                        help="start it, print its pid, and let it run")
    parser.add_argument("--timeout", type=float, default=3600)
    given = parser.parse_args(words[:cut])
    guest = one_guest(given.folder, given.number)
    env = dict(pair.split("=", 1) for pair in given.env)
    if given.preload:
        env = {"LD_PRELOAD": guest.lab.library, **env}
    way = "file" if given.keep else "pipe"
    handle = guest.start(words[cut + 1:], env=env, user=given.user, stdout=way, stderr=way,
                         keep=given.keep,
                         stdin=sys.stdin.buffer.read() if given.stdin else None)
    if given.keep:
        print(f"pid {handle.pid}, output in {handle.base}.out and .err")
        return 0
    return watched(guest, handle, given.timeout)


def watched(guest, handle, timeout):
    """Passes its output on until it ends, and returns its status."""
    streams = (("out", sys.stdout.buffer), ("err", sys.stderr.buffer))

    def more():
        for which, stream in streams:
            if handle.piped[which]:
                stream.write(handle.piped[which])
                stream.flush()
                handle.piped[which] = b""
        return handle.rc is not None
    guest.channel.until(more, timeout, "the program's end")
    more()
    return handle.rc if handle.rc >= 0 else 128 - handle.rc


def command_shell(words):
    folder, number, line = words
    guest = one_guest(folder, int(number))
    handle = guest.start(["/bin/bash", "-c", line], stdin="pipe", stdout="pipe", stderr="pipe")

    def feed():
        with contextlib.suppress(Failure, OSError):
            while data := os.read(0, 1 << 16):
                handle.send(data)
            handle.send(b"", close=True)
    threading.Thread(target=feed, daemon=True).start()
    return watched(guest, handle, 86400)


def command_hosts(words):
    parser = argparse.ArgumentParser(prog="rdmalab.py hosts")
    parser.add_argument("folder")
    parser.add_argument("file", help="JSON: see test/rdma/README.md")
    parser.add_argument("--build", help="a build folder to copy")
    given = parser.parse_args(words)
    try:
        with open(given.file) as file:
            hosts = checked(json.load(file))
    except (OSError, ValueError) as error:
        raise Failure(f"{given.file}: {error}") from None
    the_lab = Lab(given.folder)
    os.makedirs(the_lab.folder, exist_ok=True)
    with open(the_lab.path("options"), "w") as file:
        json.dump({"guests": len(hosts), "vcpus": 1, "memory": 0, "links": len(hosts) - 1,
                   "hosts": hosts}, file)
    the_lab.attach()
    if given.build:
        print(f"{the_lab.sync(given.build)} files copied")
    the_lab.detach()
    return 0


def one_guest(folder, number):
    the_lab = Lab(folder)
    with open(the_lab.path("options")) as file:
        the_lab.options = json.load(file)
    the_lab.make_guests()
    guest = the_lab[number]
    guest.machine.check()
    guest.connect(BOOT)
    return guest


def command_sync(words):
    folder, build = words
    began = time.monotonic()
    print(f"{Lab(folder).attach().sync(build)} files copied in {time.monotonic() - began:.1f} s")
    return 0


def command_reboot(words):
    folder, *numbers = words
    the_lab = Lab(folder, stays=True)
    with open(the_lab.path("options")) as file:
        the_lab.options = json.load(file)
    the_lab.make_guests()
    the_lab.reboot(*map(int, numbers))
    return 0


def command_console(words):
    folder, number = words
    print(Machine(os.path.abspath(folder), int(number)).console_tail(200))
    return 0


def command_status(words):
    pids = [Machine(os.path.abspath(words[0]), number).pid() for number in (1, 2)]
    print(" ".join(f"guest{number} {f'pid {pid}' if pid else 'not running'}"
                   for number, pid in enumerate(pids, 1)))
    return 0 if any(pids) else 1


def command_down(words):
    for number in (1, 2):
        Machine(os.path.abspath(words[0]), number).stop()
    return 0


def by_hand():
    commands = {name[8:]: value for name, value in globals().items() if name.startswith("command_")}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        print(__doc__, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return commands[sys.argv[1]](sys.argv[2:])
    except Failure as failure:
        print(f"rdmalab.py: {failure}", file=sys.stderr)
        return 125
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(by_hand())
