"""Runs real programs with and without librsock and prints what went wrong. The scripts of
test/real, test/fault, test/net, test/tool and test/rdma use it.

A case is a function marked with @case. It gets a Test, which starts programs (preloaded unless told
otherwise), waits for readiness with deadlines, collects what the library says about its streams,
and ends everything it started, by pid.

Exit status of a case: 0 all right; 1 wrong behaviour (content, status, crash, leak); 3 all content
was right but streams did not take the path that the case demands. Nothing is ever skipped.

Environment: LIBRSOCK (library, or "none" to run everything on kernel TCP), RSOCK_TOOL (bin/rsock),
RSOCK_TEST_BIN (helpers built by CMake), RSOCK_TEST_KEEP=1 (keep the temporary directory),
RSOCK_TEST_FAIL=1 (every case fails: test/teeth checks that a script's exit status shows it).
"""
import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from .processes import (CRASHES, LIBC, PYTHON, Failure, adopt_orphans, descendants,
                        dies_with_parent, environment, free_port, listening_ports, tail_of, until)
from .stats import Stats

# Of processes.py too, so that a script needs one import.
__all__ = ["CRASHES", "LIBC", "PROGRAMS", "PYTHON", "Failure", "case", "descendants", "digest",
           "listening_ports", "main"]

CASES = {}
FAILED = {}  # case -> the first thing that was wrong with it
STOPPED = []  # the case during which the script was told to end: no other one follows
LASTING = set()  # pids that all cases of a script share; the script ends them itself
EXIT_WRONG = 1
EXIT_NOT_DIRECT = 3
PROGRAMS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "real", "prog")
UNSET = ("RSOCK_STAT_FILE", "RSOCK_LOG", "RSOCK_LOG_FILE")


def case(timeout):
    """Registers a case; timeout in seconds is enforced here and, a little later, by ctest. Cases of
    a module that the program only imports are not registered.
    """
    def register(function):
        if function.__module__ == "__main__":
            CASES[function.__name__] = (function, timeout)
        return function
    return register


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Proc:
    """One program that the case started; owned by its Test, which ends it."""

    def __init__(self, name, argv, preloaded, popen, out_path, err_path):
        self.name = name
        self.argv = argv
        self.preloaded = preloaded
        self.popen = popen
        self.pid = popen.pid
        self.stdin = popen.stdin
        self.stdout = popen.stdout
        self.out_path = out_path
        self.err_path = err_path
        self.expected_signals = set()

    def out(self):
        with open(self.out_path, errors="replace") as file:
            return file.read()

    def err(self):
        with open(self.err_path, errors="replace") as file:
            return file.read()

    def describe(self):
        way = "preloaded" if self.preloaded else "plain"
        return f"{self.name} [{way}] pid {self.pid}: {' '.join(map(str, self.argv))[:300]}"


class Test:
    def __init__(self, name, library, tool):
        self.name = name
        self.library = library
        self.tool = tool
        self.tmp = tempfile.mkdtemp(prefix=f"rsock-{name}-")
        self.procs = []
        self.seen_pids = set()
        self.not_direct = []
        self.ports = set()
        self.bin = os.environ.get("RSOCK_TEST_BIN", "")
        self.log_path = os.path.join(self.tmp, "librsock.log")
        os.mkdir(os.path.join(self.tmp, "stat"))
        self.stats = Stats(self, os.path.join(self.tmp, "stat"))

    # ---- programs ------------------------------------------------------------------------------
    def environment(self, preload, extra, name):
        library = self.library if preload else None
        env = environment(lambda word: word in UNSET, library,
                          os.path.join(self.tmp, "stat", name + ".ndjson"),
                          RSOCK_LOG=os.environ.get("RSOCK_LOG", "error"),
                          RSOCK_LOG_FILE=self.log_path)
        env["LC_ALL"] = "C.UTF-8"
        env.update(extra or {})
        return env

    def spawn(self, argv, *, name=None, preload=True, env=None, stdin=None, stdout=None, cwd=None):
        """Starts a program. stdin: None (/dev/null), "pipe" or a path; stdout: None (a file),
        "pipe" or a path.
        """
        argv = [str(word) for word in argv]
        name = f"{len(self.procs):02d}-{name or os.path.basename(argv[0])}"
        out_path = stdout if stdout and stdout != "pipe" else os.path.join(self.tmp, name + ".out")
        err_path = os.path.join(self.tmp, name + ".err")
        if stdin is None:
            source = subprocess.DEVNULL
        else:
            source = subprocess.PIPE if stdin == "pipe" else open(stdin, "rb")
        with open(err_path, "wb") as errors:
            sink = subprocess.PIPE if stdout == "pipe" else open(out_path, "wb")
            try:
                popen = subprocess.Popen(argv, stdin=source, stdout=sink, stderr=errors,
                                         env=self.environment(preload, env, name),
                                         cwd=cwd or self.tmp, preexec_fn=dies_with_parent(),
                                         bufsize=0)
            finally:
                for file in (source, sink):
                    if not isinstance(file, int):
                        file.close()
        proc = Proc(name, argv, preload and bool(self.library), popen, out_path, err_path)
        self.procs.append(proc)
        self.seen_pids.add(proc.pid)
        return proc

    def python(self, program, *args, **options):
        return self.spawn([PYTHON, "-B", os.path.join(PROGRAMS, program), *args],
                          name=os.path.splitext(program)[0], **options)

    def wait(self, proc, seconds=60, expect=0):
        """Waits for the end of a program; its exit status must be expect (None: anything but a
        crash).
        """
        deadline = time.monotonic() + seconds
        while proc.popen.poll() is None:
            self.seen_pids.update(descendants(proc.pid))
            try:
                proc.popen.wait(timeout=min(0.2, max(0.001, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                if time.monotonic() > deadline:
                    raise Failure(f"{proc.describe()}: still running after {seconds} s") from None
        status = proc.popen.returncode
        if status in CRASHES or (expect is not None and status != expect):
            raise Failure(f"{proc.describe()}: ended with {status}, expected {expect}")
        return status

    def wait_out(self, proc, seconds=60):
        self.wait(proc, seconds)
        return proc.out()

    def run(self, argv, *, seconds=60, expect=0, **options):
        """Starts a program, waits for its end, and returns what it printed."""
        proc = self.spawn(argv, **options)
        self.wait(proc, seconds, expect)
        return proc.out()

    def feed(self, proc, path):
        """Writes a file to a program's stdin pipe from a thread, and leaves the pipe open."""
        def pump():
            with open(path, "rb") as file:
                try:
                    while block := file.read(1 << 16):
                        view = memoryview(block)
                        while view:
                            view = view[proc.stdin.write(view):]
                except OSError:
                    pass  # the program is gone; the case notices what it did not get
        threading.Thread(target=pump, daemon=True).start()

    def stop(self, proc, how=signal.SIGTERM, seconds=15):
        """Ends a server in the orderly way; samples its streams first."""
        self.stats.sample()
        if proc.popen.poll() is None:
            proc.expected_signals.add(how)
            proc.popen.send_signal(how)
        try:
            proc.popen.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Failure(
                f"{proc.describe()}: did not end {seconds} s after signal {how}") from None
        if proc.popen.returncode in CRASHES:
            raise Failure(f"{proc.describe()}: crashed with {proc.popen.returncode}")

    def kill(self, proc):
        proc.expected_signals.add(signal.SIGKILL)
        if proc.popen.poll() is None:
            proc.popen.kill()
        proc.popen.wait(timeout=10)

    # ---- readiness -----------------------------------------------------------------------------
    def until(self, condition, seconds, what):
        return until(condition, seconds, what)

    def free_port(self):
        """A port at which no program listens, and which the case was not given before."""
        port = free_port(self.ports)
        self.ports.add(port)
        return port

    def listening(self, proc, port, seconds=15):
        """Waits until a program listens on port, without connecting to it."""
        def ready():
            if proc.popen.poll() is not None:
                raise Failure(f"{proc.describe()}: ended with {proc.popen.returncode} before it "
                              f"listened")
            return port in listening_ports()
        self.until(ready, seconds, f"{proc.name} to listen on port {port}")
        return proc

    # ---- verdicts ------------------------------------------------------------------------------
    def check(self, condition, message):
        if not condition:
            raise Failure(message)

    def equal(self, got, wanted, what):
        if got != wanted:
            raise Failure(f"{what}: got {str(got)[:400]!r}, wanted {str(wanted)[:400]!r}")

    def same_file(self, got, wanted, what):
        self.equal(os.path.getsize(got), os.path.getsize(wanted), f"{what}: size")
        self.equal(digest(got), digest(wanted), f"{what}: sha256")

    def file(self, name, size, text=False):
        """A file of random content (lower-case hex digits if text), the same for a name and size.
        """
        path = os.path.join(self.tmp, name)
        source = random.Random(f"{name}/{size}")
        with open(path, "wb") as file:
            left = size
            while left:
                step = min(left, 1 << 20)
                block = (source.randbytes((step + 1) // 2).hex().encode() if text
                         else source.randbytes(step))
                file.write(block[:step])
                left -= step
        return path

    def path(self, *names):
        return os.path.join(self.tmp, *names)

    # ---- the end -------------------------------------------------------------------------------
    def end_all(self):
        """Kills all processes that are left; returns those that had crashed unnoticed."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            left = [pid for pid in descendants(os.getpid()) if pid not in LASTING]
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            for proc in self.procs:
                if proc.popen.poll() is None:
                    proc.expected_signals.add(signal.SIGKILL)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                pass
            if not left:
                break
            time.sleep(0.01)
        return [proc for proc in self.procs
                if proc.popen.returncode in CRASHES
                and -proc.popen.returncode not in proc.expected_signals]

    def report(self, stream=sys.stderr):
        if len(self.procs) > 8:
            print(f"--- ({len(self.procs) - 8} earlier programs not shown)", file=stream)
        for proc in self.procs[-8:]:
            shown = 20000 if proc.popen.poll() in CRASHES else 1500  # its output on a crash
            print(f"--- {proc.describe()} -> {proc.popen.poll()}", file=stream)
            for label, path in (("stdout", proc.out_path), ("stderr", proc.err_path)):
                try:
                    tail = tail_of(path, shown)
                except OSError:
                    continue
                printable = sum(char.isprintable() or char.isspace() for char in tail)
                if tail.strip() and printable > 0.9 * len(tail):
                    print(f"    {label}: {tail.strip()}", file=stream)
        self.stats.report(stream)
        if os.path.exists(self.log_path):
            with open(self.log_path, errors="replace") as file:
                print("--- librsock log (last lines)\n" + "".join(file.readlines()[-40:]),
                      file=stream)


def run_case(name, library, tool):
    function, timeout = CASES[name]
    test = Test(name, library, tool)
    status = 0

    def wrong(kind, message):
        print(f"{kind} {name}: {message}", file=sys.stderr)
        FAILED.setdefault(name, str(message))

    def too_long(_signal, _frame):
        raise Failure(f"the case did not finish within {timeout} s")

    def told_to_end(_signal, _frame):
        STOPPED.append(name)
        raise Failure("the script was told to end")

    signal.signal(signal.SIGALRM, too_long)
    signal.signal(signal.SIGTERM, told_to_end)
    signal.alarm(timeout)
    started = time.monotonic()
    try:
        if os.environ.get("RSOCK_TEST_FAIL"):
            raise Failure("RSOCK_TEST_FAIL is set")
        function(test)
        test.stats.sample()
    except Failure as failure:
        wrong("FAIL", failure)
        status = EXIT_WRONG
    except Exception as error:
        wrong("FAIL", f"the test program met something unexpected: {error!r}")
        traceback.print_exc()
        status = EXIT_WRONG
    signal.alarm(0)
    crashed = test.end_all()
    for proc in crashed:
        wrong("FAIL", f"{proc.describe()} crashed with {proc.popen.returncode}")
        status = EXIT_WRONG
    for message in test.stats.trouble:
        wrong("FAIL", message)
        status = EXIT_WRONG
    for message in test.not_direct:
        wrong("NOT DIRECT" if not status else "also not direct", message)
    if test.not_direct and not status:
        status = EXIT_NOT_DIRECT
    if status == EXIT_WRONG or (status and library):
        test.report()
    elif not status:
        print(f"ok {name} ({time.monotonic() - started:.1f} s) {test.stats.summary()}")
    if os.environ.get("RSOCK_TEST_KEEP"):
        print(f"kept {test.tmp}")
    else:
        shutil.rmtree(test.tmp, ignore_errors=True)
    return status


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", help="cases to run (all)")
    parser.add_argument("--list", action="store_true", help="print each case and its timeout")
    parser.add_argument("--tcp", action="store_true",
                        help="run without the library: direct demands must fail")
    parser.add_argument("--expect", type=int, default=0,
                        help="the exit status that counts as success")
    options = parser.parse_args()
    if options.list:
        for name, (_function, timeout) in CASES.items():
            print(name, timeout)
        return 0
    library, tool = os.environ.get("LIBRSOCK", ""), os.environ.get("RSOCK_TOOL", "")
    if options.tcp or library == "none":
        library = ""
    elif not library or not tool:
        print("set LIBRSOCK and RSOCK_TOOL, or give --tcp", file=sys.stderr)
        return 2
    else:
        for path in library.split(":") + [tool]:
            if not os.path.exists(path):
                print(f"no such file: {path}", file=sys.stderr)
                return 2
    adopt_orphans()
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        print(f"no such case: {unknown}", file=sys.stderr)
        return 2
    worst = 0
    if not CASES:
        print("no cases", file=sys.stderr)
        return 2
    for name in options.cases or CASES:
        status = EXIT_WRONG if STOPPED else run_case(name, library, tool)
        if status != options.expect:
            worst = worst or status or EXIT_WRONG
            FAILED.setdefault(name, "the script had been told to end" if STOPPED else "it passed")
        else:
            FAILED.pop(name, None)
    # At the end, after the messages of each case: of a long log perhaps only the end is kept.
    sys.stdout.flush()
    for name, message in FAILED.items():
        print(f"failed: {name}: {(message.splitlines() or [''])[0][:1000]}", file=sys.stderr)
    return worst
