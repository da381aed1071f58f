#!/usr/bin/python3 -B
"""The regression guard: counts instructions, system calls and clock reads per call, and compares
them with bounds. The counts do not depend on the machine's load. Run by make test and
scripts/guard.sh.

guard.py                         every state of calls.c; exit status 1: out of bounds,
                                 3: a stream was not in its state
guard.py --update                the same, and rewrites bounds.json from the counts
guard.py --profile direct send   where the instructions of one row are executed,
                                 by callgrind_annotate
guard.py --tcp                   the library switched off: 0 only if that is noticed

The state "slots" is that of slots.c, which needs no library: it measures what transaction tags cost
per slot, and that they cost nothing with one rail. Every other state is one of calls.c and runs
under callgrind with and without the library. A direct stream's figures are all that its calls
execute, less the loop around them; the figures of the others are what the library adds to the call.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from lib.streams import ring_bytes, streams_of, tcp_bytes

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("RSOCK_BUILD", HERE.parent.parent / "build")).resolve()
BOUNDS = HERE / "bounds.json"
STATES = ("direct", "many", "new", "lookup", "accepted", "given-up", "other", "slots")
COUNTS = ("instructions", "syscalls", "clock")
LOOP = "nothing"
SLOTS = "slots"
# Wider vectors take other paths through memcpy(): use the plain ones on every processor.
TUNABLES = "glibc.cpu.hwcaps=-AVX2,-AVX512F,-AVX512VL,-AVX_Fast_Unaligned_Load,-ERMS,-FSRM"
# A stream that cannot earn promotion stays new however long it lives.
ENV = {"new": {"RSOCK_EARN_CALLS": "0", "RSOCK_EARN_BYTES": "0"}}
# What the statistics must show at the end: how many ends the library sees, and their reason.
MANY = 50  # connections in this state, all treated alike
WANTED = {"direct": (2, "direct"), "many": (2 * MANY, "direct"), "new": (2, "not-earned"),
          "lookup": (1, "no-peer"),
          "accepted": (1, "no-peer"), "given-up": (1, "no-peer")}
# the most that bound_for() adds beyond a tenth
ROUNDING = {"instructions": 5, "syscalls": 0.01, "clock": 0.01}
RUN_LIMIT_S = 120


class NotSo(Exception):
    """A stream was not in the state that is measured."""


class Failed(Exception):
    """The run gave no counts."""


@dataclass
class Run:
    """rows: name to a dict of COUNTS, per call; sent, received: bytes of the near end."""

    rows: dict
    sent: int
    received: int
    stat: str


# ---- counting ------------------------------------------------------------------------------------
def read_dump(text):
    """(name, instructions, system calls) of a dump; None if the program did not request it."""
    fields = {}
    for line in text.splitlines():
        key, colon, value = line.partition(": ")
        if colon and key in ("events", "summary", "desc"):
            if key == "desc":
                key, _, value = value.partition(": ")
            fields[key.strip()] = value.strip()
    asked, _, what = fields.get("Trigger", "").partition(": ")
    if asked != "Client Request":
        return None
    values = [int(word) for word in fields["summary"].split()]
    events = dict(zip(fields["events"].split(), values))  # callgrind omits zeros at the end
    return what, events.get("Ir", 0), events.get("sysCount", 0)


def read_run(output, dumps, stat=""):
    """Makes a Run of the output of calls.c and of its dumps."""
    sums = {}
    for what, instructions, syscalls in filter(None, map(read_dump, dumps)):
        kind, _, name = what.partition("\t")
        key = (kind, name)
        sums[key] = sums.get(key, 0) + (instructions if kind == "instructions" else syscalls)
    rows, sent, received = {}, None, None
    for line in output.splitlines():
        word, *rest = line.split("\t")
        if word == "row":
            name, calls, reads, syscall_calls = rest[0], int(rest[1]), int(rest[2]), int(rest[3])
            try:
                rows[name] = {"instructions": sums["instructions", name] / calls,
                              "syscalls": sums["syscalls", name] / syscall_calls,
                              "clock": reads / calls}
            except KeyError as error:
                raise Failed(f"row '{name}': no dump {error}") from None
        elif word == "bytes":
            sent, received = map(int, rest)
    if sent is None or not rows:
        raise Failed("calls.c did not come to its end")
    return Run(rows, sent, received, stat)


def callgrind(state, where, library, extra=None, row=None):
    """Runs calls.c with its dumps and statistics in the folder @where. Returns its output."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("RSOCK_") and k != "LD_PRELOAD"}
    env["GLIBC_TUNABLES"] = TUNABLES
    if library:
        env |= ENV.get(state, {}) | (extra or {})
        env |= {"LD_PRELOAD": str(library), "RSOCK_STAT_FILE": str(where / "stat")}
    command = ["valgrind", "--tool=callgrind", "--quiet", "--collect-atstart=no",
               "--collect-systime=yes",
               f"--callgrind-out-file={where}/dump",
               str(BUILD / "bin" / ("guard_slots" if state == SLOTS else "guard_calls")),
               state] + ([row] if row else [])
    try:
        done = subprocess.run(command, env=env, cwd=where, capture_output=True, text=True,
                              timeout=RUN_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{state}: {error}") from None
    if done.returncode:
        raise Failed(f"{state}: exit {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def count(state, library, extra=None):
    with tempfile.TemporaryDirectory(prefix="guard-") as folder:
        where = pathlib.Path(folder)
        output = callgrind(state, where, library, extra)
        dumps = [path.read_text() for path in where.glob("dump.*")]
        stat = where / "stat"
        return read_run(output, dumps, stat.read_text() if stat.exists() else "")


def profile(state, row, library):
    """callgrind_annotate's table of a run with this row alone: after a dump, callgrind 3.19 loses
    the functions."""
    with tempfile.TemporaryDirectory(prefix="guard-") as folder:
        where = pathlib.Path(folder)
        callgrind(state, where, library if state != SLOTS else None, row=row)
        dump = where / "dump.1"
        if not dump.exists():
            raise Failed(f"{state}: no row '{row}'")
        return subprocess.run(["callgrind_annotate", "--auto=no", "--show=Ir", str(dump)],
                              check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def check_state(state, run):
    """Raises NotSo unless the statistics show this state and count the bytes that were moved."""
    if state not in WANTED:
        return
    ends, reason = WANTED[state]
    streams = [s for line in run.stat.splitlines() for s in streams_of(line)]
    if len(streams) != ends:
        raise NotSo(f"{state}: {len(streams)} streams in the statistics, not {ends}")
    direct = reason == "direct"
    moved = (run.sent + run.received) / max(1, ends // 2)
    for s in streams:
        ring = ring_bytes(s)
        total = ring + tcp_bytes(s)
        if (s["reason"] != reason or s["demotions"] or
                {s["tx"], s["rx"]} != {"ring" if direct else "tcp"}):
            raise NotSo(f"{state}: a stream is '{s['reason']}', tx {s['tx']}, rx {s['rx']}, "
                        f"{s['demotions']} demotions")
        # The library stops counting when it gives up a stream.
        if (total == moved) == (state == "given-up"):
            raise NotSo(f"{state}: the statistics know of {total} bytes, {moved:.0f} were moved")
        if ring < 0.95 * total if direct else ring:
            raise NotSo(f"{state}: {ring} of {total} bytes went through the ring")


def own_counts(state, preloaded, plain):
    """The library's share of each row."""
    counts = {}
    for name, row in preloaded.rows.items():
        if name == LOOP:
            continue
        if state == SLOTS:
            counts[name] = row
            continue
        less = preloaded.rows[LOOP] if state in ("direct", "many") else plain.rows[name]
        counts[name] = {count: row[count] - less[count] for count in COUNTS}
    return counts


# ---- judging -------------------------------------------------------------------------------------
def bound_for(counted):
    """About a tenth above the counts; zero stays zero."""
    return {
        "instructions": math.ceil(counted["instructions"] * 1.1 + 4),
        "syscalls": math.ceil(round(counted["syscalls"] * 110, 6)) / 100,
        "clock": math.ceil(round(counted["clock"] * 110, 6)) / 100,
    }


def verdict(counted, bound):
    """What is wrong with one row; "" if nothing is."""
    wrong = []
    for what in COUNTS:
        n, most = counted[what], bound[what]
        if n > most:
            wrong.append(f"{n:.2f} {what}, at most {most}")
        elif n < (most - ROUNDING[what]) / 2:
            wrong.append(f"{n:.2f} {what}: lower the bound of {most}")
    return "; ".join(wrong)


def judge(counted, bounds):
    """What is wrong, by (state, row); also a bound without a row, and a row without a bound."""
    wrong = {}
    for state in counted.keys() | bounds.keys():
        names = counted.get(state, {}).keys() | bounds.get(state, {}).keys()
        for name in names:
            row, bound = counted.get(state, {}).get(name), bounds.get(state, {}).get(name)
            what = ("not counted" if row is None else "no bound" if bound is None
                    else verdict(row, bound))
            if what:
                wrong[state, name] = what
    return wrong | judge_slots(counted.get(SLOTS, {}))


def judge_slots(rows):
    """Checks that a link with one rail pays nothing for tags that it does not write, and no more
    than the question how many rails it has where there is nothing to read.
    """
    wrong = {}
    for call, more in (("put", 0.5), ("take", 0.5), ("nothing", 30)):
        one, none = rows.get(f"{call}, one rail"), rows.get(f"{call}, no form")
        if one and none and one["instructions"] - none["instructions"] > more:
            wrong[SLOTS, f"{call}, one rail"] = \
                f"{one['instructions']:.2f} instructions, " \
                f"{none['instructions']:.2f} without any tags"
    return wrong


def show(counted, bounds):
    print(f"{'stream':<9} {'call':<26} {'instructions':>12} {'bound':>6} {'syscalls':>9} "
          f"{'bound':>6} {'clock':>6} "
          f"{'bound':>6}")
    for state, rows in counted.items():
        for name, row in rows.items():
            bound = bounds.get(state, {}).get(name, {})
            most = [str(bound.get(what, "-")) for what in COUNTS]
            print(f"{state:<9} {name:<26} {row['instructions']:>12.1f} {most[0]:>6} "
                  f"{row['syscalls']:>9.2f} "
                  f"{most[1]:>6} {row['clock']:>6.2f} {most[2]:>6}")


def write_json(path, value):
    """Writes one line per row, for readable diffs."""
    parts = []
    for state, rows in value.items():
        lines = [f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items()]
        parts.append(f"  {json.dumps(state)}: {{\n" + ",\n".join(lines) + "\n  }")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


# ---- main ----------------------------------------------------------------------------------------
def count_all(library):
    counted = {}
    for state in STATES:
        preloaded = count(state, library if state != SLOTS else None)
        check_state(state, preloaded)
        counted[state] = own_counts(state, preloaded,
                                    count(state, None) if state != SLOTS else None)
    return counted


def notices(library):
    try:
        check_state("direct", count("direct", library, {"RSOCK_DISABLE": "1"}))
    except NotSo as error:
        print(f"noticed: {error}")
        return 0
    print("guard: nothing was accelerated, and it was not noticed", file=sys.stderr)
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true",
                        help="write bounds.json anew from what is counted")
    parser.add_argument("--profile", nargs=2, metavar=("STATE", "ROW"),
                        help="where a row's instructions are executed")
    parser.add_argument("--tcp", action="store_true",
                        help="the library switched off, which must be noticed")
    options = parser.parse_args()
    library = pathlib.Path(os.environ.get("LIBRSOCK", BUILD / "lib" / "librsock.so")).resolve()
    if not library.exists():
        sys.exit(f"guard: no {library}")
    try:
        if options.profile:
            print(profile(*options.profile, library))
            return 0
        if options.tcp:
            return notices(library)
        counted = count_all(library)
    except NotSo as error:
        print(f"guard: {error}", file=sys.stderr)
        return 3
    except (Failed, subprocess.CalledProcessError) as error:
        print(f"guard: {error}", file=sys.stderr)
        return 1
    if options.update:
        write_json(BOUNDS, {state: {name: bound_for(row) for name, row in rows.items()}
                            for state, rows in counted.items()})
    bounds = json.loads(BOUNDS.read_text(encoding="utf-8"))
    show(counted, bounds)
    write_json(BUILD / "guard.json", {state: {name: {what: round(n, 3) for what, n in row.items()}
                                              for name, row in rows.items()}
                                      for state, rows in counted.items()})
    wrong = judge(counted, bounds)
    for (state, name), what in sorted(wrong.items()):
        print(f"guard: {state}, {name}: {what}", file=sys.stderr)
    if wrong:
        print("guard: if that is meant: scripts/guard.sh --update, and say why in the commit",
              file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
