"""Defines runs, the rows that the table shows of them, and their targets. Pure: samples in, words
out. Used by compare.py and rdma.py."""
import random
import statistics
from dataclasses import dataclass, field
from typing import Callable

from stages import LIMIT, ONE_SIDE, SPIN, TCP, Mode, Travel

NOISE = 0.05  # a ratio this close to 1 is no gain; nor is one whose samples overlap
NAMES = {"tcp": "TCP", "unix": "the unix socket", "limit": "the limit", "spin": "spinning",
         "sleep": "sleeping",
         "one side": "one side"}


@dataclass(frozen=True)
class Target:
    """A bound from the requirements. base None: for the figure itself; otherwise for its ratio to
    the base: how many times better, or, with at_most, how many times worse."""

    bound: float
    mode: Mode = SPIN
    base: Mode = TCP
    at_most: bool = False

    def text(self, unit=""):
        of = ("" if self.base is TCP else f" {unit}" if self.base is None
              else f" {NAMES[self.base.name]}")
        times = "" if self.base is None else "×"
        who = "" if self.mode is SPIN else NAMES[self.mode.name] + " "
        return f"{who}{'≤' if self.at_most else '≥'} {self.bound:g}{times}{of}"


@dataclass(frozen=True)
class CostTarget:
    """For pairs of neighbours in time: at most this many percent worse."""

    percent: float

    def text(self, unit=""):
        del unit
        return f"≤ {self.percent:g} % worse"


def faster(bound, mode=SPIN, base=TCP):
    return Target(bound, mode, base)


def near_limit(bound, mode=SPIN):
    return Target(bound, mode, LIMIT, at_most=True)


def figure_at_most(bound, mode=SPIN):
    return Target(bound, mode, None, at_most=True)


def figure_at_least(bound, mode=SPIN):
    return Target(bound, mode, None)


@dataclass(frozen=True)
class Row:
    """One line of the table: one figure from the result of a run."""

    key: str
    title: str
    unit: str
    pick: object  # "a.b" in the result, or a function of it
    scale: float = 1.0  # factor from figure to unit
    lower_is_better: bool = False
    targets: tuple = ()
    part: str = ""  # part of the requirements

    def gain(self, base, figure):
        return base / figure if self.lower_is_better else figure / base

    def figure(self, result):
        value = self.pick(result) if callable(self.pick) else dig(result, self.pick)
        return value * self.scale


@dataclass(frozen=True)
class Run:
    """A server and a client on a stage, once in each mode, in turns. Rows are made from its
    results."""

    key: str
    call: Callable  # (stage, seconds) -> (result: dict, Travel)
    modes: tuple
    rows: tuple
    earns: bool = True  # expected to be accelerated
    turns: int = 1  # short turns in a round, one mode after the other, compared pair by pair
    quick: bool = True
    rounds: int = 0  # most rounds; 0: as many as all
    cost_s: float = 0.35  # a turn's time in addition to the measurement
    share: float = 1.0  # fraction of a turn's normal time
    whole: bool = False  # the program counts in whole seconds
    axis: str = ""  # results are {point: value}, for a plot over this quantity

    def turn_s(self, seconds):
        return max(seconds * self.share / self.turns, 0.2 if self.turns > 1 else 0)

    def duration_s(self, rounds, seconds):
        rounds = min(rounds, self.rounds or rounds)
        turn_s = max(1, round(self.turn_s(seconds))) if self.whole else self.turn_s(seconds)
        return rounds * self.turns * len(self.modes) * (turn_s + self.cost_s)


@dataclass
class Cell:
    """Everything that one run produced in one mode."""

    results: list = field(default_factory=list)
    travel: Travel = field(default_factory=Travel)
    errors: list = field(default_factory=list)


class Table:
    """Cells by run and mode, and how rows read them."""

    def __init__(self, runs):
        self.runs = runs
        self.cells = {(run.key, mode.name): Cell() for run in runs for mode in run.modes}

    def cell(self, run, mode):
        return self.cells.get((run.key, mode.name))

    def samples(self, run, row, mode):
        cell = self.cell(run, mode)
        return [row.figure(result) for result in cell.results] if cell else []

    def ratio(self, run, row, mode, base=TCP):
        figures, bases = self.samples(run, row, mode), self.samples(run, row, base)
        if (not figures or not bases or not statistics.median(figures)
            or not statistics.median(bases)):
            return None
        return row.gain(statistics.median(bases), statistics.median(figures))


def dig(result, path):
    for name in path.split("."):
        result = result[name]
    return result


def apart(some, others):
    return min(some) > max(others) or max(some) < min(others)


def spread(samples):
    median = statistics.median(samples)
    return (max(samples) - min(samples)) / median if median else 0.0


def median_interval(values):
    """The median, and its 95 % confidence interval."""
    chance = random.Random(1)  # a fixed seed: the same samples give the same interval
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(2000))
    return statistics.median(values), medians[50], medians[-51]


def pairs_interval(row, base, figures):
    """Percent better (worse: negative), pair by pair."""
    return median_interval([(row.gain(a, b) - 1) * 100 for a, b in zip(base, figures)])


def cost_verdict(target, low, high):
    """A bound within the interval is neither confirmed nor refuted."""
    if low >= -target.percent:
        return "met"
    return "not met" if high < -target.percent else "open"


def verdict(table, run, row, target):
    """(met, not met, open or failed; the value that was compared with the bound, or None)."""
    if isinstance(target, CostTarget):
        base, figures = table.samples(run, row, TCP), table.samples(run, row, ONE_SIDE)
        if not base or not figures or any(table.cell(run, mode).errors for mode in (TCP, ONE_SIDE)):
            return "failed", None  # after a missing sample the others would not be paired correctly
        median, low, high = pairs_interval(row, base, figures)
        return cost_verdict(target, low, high), median
    figures = table.samples(run, row, target.mode)
    if target.base is None:
        value = statistics.median(figures) if figures else None
    else:
        value = table.ratio(run, row, target.mode, target.base)
    if value is None:
        return "failed", None
    if target.at_most:
        value = 1 / value if target.base else value
        return ("met" if value <= target.bound else "not met"), value
    if value >= target.bound:
        return "met", value
    # "Not below TCP" is refuted only if the samples do not overlap.
    if target.base and target.bound <= 1 and not apart(figures,
                                                       table.samples(run, row, target.base)):
        return "open", value
    return "not met", value
