#!/usr/bin/env python3
"""Varies each assumption of the paper's model (drp.py) by itself, and shows what becomes of the
sign of Figure 5 (is dynamic quicker where frames are lost?), of the trend of Figure 7 (do small
frames gain more?) and of Figure 6, whose numbers the assumptions were fitted to. All figures are
modelled.

The paper measures Figure 7 on FPGAs; here it is the model with frames of 256, 512 and 1,024 bytes,
where 10 % of the registrations fail and nothing is lost. A transfer then depends on nothing but how
many registrations fail, so these means are exact. Takes less than a minute of one processor.
"""
import argparse
import dataclasses
import json
import pathlib
import statistics
from dataclasses import dataclass, field

import drp
import mechanisms
import paper_report
from drp import DYNAMIC, TRADITIONAL, Model, Transfer
from rdma_report import table_lines

COUNT = 1000  # transfers of a cell of Figure 5
FEWER = 3  # factor by which there are fewer for Figure 6
LOST = (5, 10)  # percent
PAYLOADS = (256, 512, 1024)
FAILS = 0.1  # of Figure 7; the paper's are not known
MOST_FAILURES = 8  # of one transfer of Figure 7: more happen once in 10^9
NEVER = NO_LIMIT = 10**9
# An indirect initiator asks again no sooner than a traditional one.
ONE_TIMER = {"again_ns": mechanisms.FITTED["request_ns"]}
UNLIMITED = {**ONE_TIMER, "buffer_bytes": NO_LIMIT}


@dataclass(frozen=True)
class Variation:
    what: str
    changed: dict = field(default_factory=dict)
    until: str = "ns"  # field of Outcome: where the clock ends
    frames: int = 0  # of a transfer, whatever their size; 0: a transfer has 128 KiB

    def model(self, **more):
        model = Model(**{**mechanisms.FITTED, **more, **self.changed})
        return dataclasses.replace(model, bytes=self.frames * model.payload) if self.frames \
            else model


ACKED = "acked_ns"
AS_FITTED = Variation("as fitted")
SLOW = Variation("registration takes 5 ms", {"register_ns": 5_000_000})
BOTH = (
    AS_FITTED,
    Variation("sends indirectly at once", {"timeouts": 0}),
    Variation("at once, timer 0.4 ms, registration no time",
              {"timeouts": 0, "request_ns": 400_000, "register_ns": 0}),
    Variation("sends indirectly at the first timeout", {"timeouts": 1}),
    Variation("sends indirectly at the third timeout", {"timeouts": 3}),
    Variation("request's timer 0.5 ms", {"request_ns": 500_000}),
    Variation("request's timer 10 ms", {"request_ns": 10_000_000}),
    Variation("one timer for all requests", ONE_TIMER),
    Variation("indirect buffer without a limit", {"buffer_bytes": NO_LIMIT}),
    Variation("one timer, no limit", UNLIMITED),
    Variation("data's timer 0.5 ms", {"repeat_ns": 500_000}),
    Variation("registration takes no time", {"register_ns": 0}),
    Variation("registration takes 1 ms", {"register_ns": 1_000_000}),
    SLOW,
    Variation("clock ends at the last acknowledgement", until=ACKED),
    Variation("window 1", {"window": 1}),
    Variation("window 4", {"window": 4}),
    Variation("an acknowledgement for 8 frames", {"ack_every": 8}),
    Variation("wire and node 5 µs", {"wire_ns": 5_000}),
    Variation("no header but Ethernet's", {"drp_bytes": 0}),
    Variation("header of 100 bytes", {"drp_bytes": 100}),
    Variation("half of the wire is others'", {"ns_per_byte": 2 * drp.NS_PER_BYTE}),
    Variation("buffer moved at 3 µs a KiB", {"move_ns_per_kib": 3_000}),
    Variation("bus request 4 µs", {"bus_ns": 4_000}),
)
LOSSES = (
    Variation("frames behind a gap are sent again", {"keeps": False}),
    Variation("no fast retransmission", {"duplicates": NEVER}),
    Variation("losses come in pairs", {"burst": 2}),
    Variation("losses come in fours", {"burst": 4}),
    Variation("data are never lost", {"spared": "data"}),
    Variation("only data are lost", {"spared": "control"}),
    Variation("timer 1 s, no limit, data never lost, last acknowledgement",
              {"request_ns": 10**9, "spared": "data", "buffer_bytes": NO_LIMIT}, until=ACKED),
)
FRAMES = (
    Variation("bus request 8 µs", {"bus_ns": 8_000}),
    Variation("one timer, bus request 8 µs", {**ONE_TIMER, "bus_ns": 8_000}),
    Variation("one timer, no limit, bus request 8 µs", {**UNLIMITED, "bus_ns": 8_000}),
    Variation("one timer, no limit, last acknowledgement", UNLIMITED, until=ACKED),
    Variation("one timer of 0.5 ms, no limit", {**UNLIMITED, "again_ns": 500_000,
                                                "request_ns": 500_000}),
    Variation("1 % of the registrations fail", {"fails": 0.01}),
    Variation("128 frames a transfer of any size", frames=128),
)
SIXES = (
    *(each for each in BOTH if {"timeouts", "again_ns", "buffer_bytes"} & set(each.changed)
      or each in (AS_FITTED, SLOW)),
    Variation("at the first timeout, timer 1 ms", {"timeouts": 1, "request_ns": 1_000_000}),
    Variation("one timer, no limit, last acknowledgement", UNLIMITED, until=ACKED),
)


class Failures:
    """A random() by which the first count registrations fail, and no others."""

    def __init__(self, count):
        self.left = count

    def random(self):
        self.left -= 1
        return 0.0 if self.left >= 0 else 1.0


def exact(model, until="ns"):
    """Mean time in ns where nothing is lost, over all numbers of failures by their probability."""
    return sum(model.fails**failures * (1 - model.fails)
               * getattr(Transfer(model, Failures(failures)).run(), until)
               for failures in range(MOST_FAILURES + 1))


def sampled(variation, count, **more):
    """Pairs of times in ns (traditional, dynamic)."""
    runs = (drp.both(variation.model(**more), 1, number) for number in range(count))
    return [tuple(getattr(each, variation.until) for each in run) for run in runs]


def five(variation, count=COUNT):
    """What Figure 5 becomes: for each of LOST the change in percent, and how many transfers are
    quicker and slower by the dynamic method."""
    cells = {}
    for percent in LOST:
        pairs = sampled(variation, count, lost=percent / 100)
        cells[percent] = {"traditional_ns": statistics.mean(slow for slow, _ in pairs),
                          "change": paper_report.change(pairs),
                          "quicker": sum(quick < slow for slow, quick in pairs),
                          "slower": sum(quick > slow for slow, quick in pairs)}
    return cells


def six(variation, count=COUNT // FEWER):
    """Figure 6's changes in percent."""
    return {percent: paper_report.change(sampled(variation, count, fails=percent / 100,
                                                 lost=percent / 100))
            for percent in mechanisms.PAPER}


def seven(variation):
    """Figure 7's changes in percent by bytes of a frame."""
    changes = {}
    for payload in PAYLOADS:
        model = variation.model(fails=FAILS, payload=payload)
        slow, quick = (exact(dataclasses.replace(model, method=method), variation.until)
                       for method in (TRADITIONAL, DYNAMIC))
        changes[payload] = (quick / slow - 1) * 100
    return changes


def trend(changes):
    """Which frames gain more."""
    small, large = (changes[payload] for payload in (PAYLOADS[0], PAYLOADS[-1]))
    if abs(small - large) < 0.05:
        return "alike"
    return "small" if small < large else "large"


def percent_text(value):
    return f"{value:+.1f} %" if abs(value) >= 0.05 or not value else f"{value:+.2f} %"


def markdown(fives, sixes, sevens, count):
    """Three tables; each of the dicts has the results by a variation's name."""
    paper = {payload: paper_report.PAPER["frames", payload] for payload in PAYLOADS}
    lines = [f"Figure 5, modelled, {count} transfers each: frames are lost", ""]
    lines += table_lines(
        ["assumption", "traditional at 10 %, ms", "change at 5 %", "change at 10 %",
         "at 10 %: quicker, slower by dynamic"],
        [[what, f"{cells[10]['traditional_ns'] * mechanisms.MS:.2f}",
          *(percent_text(cells[percent]["change"]) for percent in LOST),
          f"{cells[10]['quicker']}, {cells[10]['slower']}"] for what, cells in fives.items()])
    lines += ["", f"Figure 6, modelled, {count // FEWER} transfers each: both", ""]
    lines += table_lines(
        ["assumption", *(f"{percent} %" for percent in mechanisms.PAPER)],
        [["the paper", *map(percent_text, mechanisms.PAPER.values())],
         *([what, *map(percent_text, cells.values())] for what, cells in sixes.items())])
    lines += ["", f"Figure 7, modelled, exact means: {FAILS * 100:.0f} % of the registrations fail",
              ""]
    return lines + table_lines(
        ["assumption", *(f"{payload} bytes" for payload in PAYLOADS), "gain more"],
        [[what, *map(percent_text, cells.values()), trend(cells)]
         for what, cells in {"the paper, on FPGAs": paper, **sevens}.items()])


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--transfers", type=int, default=COUNT,
                   help=f"of a cell of Figure 5 ({COUNT}); a {FEWER}th of them of Figure 6")
    p.add_argument("--json", type=pathlib.Path, help="the figures, too")
    args = p.parse_args()
    if args.transfers < FEWER:
        p.error(f"--transfers: at least {FEWER}")
    fives = {each.what: five(each, args.transfers) for each in BOTH + LOSSES}
    sixes = {each.what: six(each, args.transfers // FEWER) for each in SIXES}
    sevens = {each.what: seven(each) for each in BOTH + FRAMES}
    if args.json:
        args.json.write_text(json.dumps({"transfers": args.transfers, "figure_5": fives,
                                         "figure_6": sixes, "figure_7": sevens}, indent=1) + "\n")
    print("\n".join(markdown(fives, sixes, sevens, args.transfers)))


if __name__ == "__main__":
    main()
