"""Reports a table of samples as markdown and as JSON. Called by compare.py."""
import json
import statistics
import time

import stages
from stages import LIMIT, NO_HASH, ONE_SIDE, SLEEP, SPIN, TCP, UNIX
from table import NOISE, CostTarget, apart, pairs_interval, spread, verdict

FIGURES = (TCP, SPIN, SLEEP, UNIX, LIMIT)


def ratio_text(table, run, row, mode):
    """How many times better than TCP; "no gain" if it is too close or the samples overlap."""
    cell = table.cell(run, mode)
    if not cell:
        return ""
    ratio = table.ratio(run, row, mode)
    if ratio is None:
        return "" if cell.results and table.cell(run, TCP).results else "**failed**"
    if abs(ratio - 1) <= NOISE or not apart(table.samples(run, row, mode),
                                            table.samples(run, row, TCP)):
        return f"no gain, {ratio:.2f}×"
    return f"**{ratio:.2f}×**" if ratio > 1 else f"slower, {ratio:.2f}×"


def limit_text(table, run, row):
    """Each mode's figure relative to the limit."""
    if not table.cell(run, LIMIT) or not row.targets and not table.samples(run, row, LIMIT):
        return ""
    parts = []
    for mode in (SPIN, SLEEP):
        ratio = table.ratio(run, row, mode, LIMIT)
        parts.append("failed" if ratio is None else f"{1 / ratio:.2f}")
    return " / ".join(parts)


def paired_text(table, run, row):
    base, cell = table.cell(run, TCP), table.cell(run, ONE_SIDE)
    if base.errors or cell.errors or not cell.results:
        return "**failed**"
    median, low, high = pairs_interval(row, table.samples(run, row, TCP),
                                       table.samples(run, row, ONE_SIDE))
    return f"{median:+.1f} % ({low:+.1f} to {high:+.1f})"


def number(value):
    """Three significant digits; no exponent for thousands."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def value_text(target, row, value):
    if value is None:
        return ""
    if isinstance(target, CostTarget):
        return f" ({value:+.1f} %)"
    return f" ({number(value)}{'×' if target.base else ' ' + row.unit})"


def target_text(table, run, row):
    parts = []
    for target in row.targets:
        word, value = verdict(table, run, row, target)
        word = word if word == "met" else f"**{word}**"
        parts.append(f"{target.text(row.unit)}: {word}{value_text(target, row, value)}")
    return "; ".join(parts)


def figure_text(table, run, row, mode):
    if not table.cell(run, mode):
        return ""
    samples = table.samples(run, row, mode)
    return (f"{number(statistics.median(samples))} ±{spread(samples) * 50:.0f} %" if samples
            else "failed")


def travel_text(table, run, mode):
    travel = table.cell(run, mode).travel
    warning = "**NOT ACCELERATED** " if run.earns and travel.verdict() != "direct" else ""
    return warning + travel.text()


def travels_text(table, run):
    texts = [travel_text(table, run, mode) for mode in (SPIN, SLEEP) if table.cell(run, mode)]
    return texts[0] if len(set(texts)) == 1 else "; ".join(texts)


def lines_of(runs, mode):
    return [(run, row) for run in runs if mode in run.modes for row in run.rows]


def faster_lines(table):
    lines = lines_of(table.runs, SPIN)
    if not lines:
        return []
    return ["| # | what | spinning | sleeping | unix socket | times the limit (spinning / "
            "sleeping) | target "
            "| how the streams travelled (spinning; sleeping) |",
            "|---|---|---|---|---|---|---|---|"] + [
        f"| {row.part} | {row.title} | {ratio_text(table, run, row, SPIN)} | "
        f"{ratio_text(table, run, row, SLEEP)} "
        f"| {ratio_text(table, run, row, UNIX)} | {limit_text(table, run, row)} | "
        f"{target_text(table, run, row)} "
        f"| {travels_text(table, run)} |" for run, row in lines]


def alone_lines(table):
    lines = lines_of(table.runs, ONE_SIDE)
    if not lines:
        return []
    return ["", "| # | not accelerated | better (+) or worse (-) than no preload, 95 % interval | "
                "target "
            "| how the streams travelled |", "|---|---|---|---|---|"] + [
        f"| {row.part} | {row.title} | {paired_text(table, run, row)} | "
        f"{target_text(table, run, row)} "
        f"| {table.cell(run, ONE_SIDE).travel.text()} |" for run, row in lines]


def figure_lines(table):
    lines = [(run, row) for run in table.runs for row in run.rows]
    if not lines:
        return []
    return ["", "Medians behind the ratios, with half the distance from lowest to highest sample; "
                "only of use on this "
            "machine, in this hour:", "",
            "| what | unit | TCP | spinning | sleeping | unix socket | limit | one side |",
            "|---|---|---|---|---|---|---|---|"] + [
        f"| {row.title} | {row.unit} | "
        + " | ".join(figure_text(table, run, row, mode) for mode in FIGURES + (ONE_SIDE,)) + " |"
        for run, row in lines]


def slot_lines(table):
    """The cost of the hash: the same slot with and without it."""
    slots = [s for run in table.runs if run.key == "slots" for r in table.cell(run, LIMIT).results
             for s in r["slots"]]
    if not slots:
        return []
    return ["", "What the hash costs: ns a message, both ends in one thread.", "",
            "| bytes | copies alone | hashes alone | both | the ring | the ring, times both | "
            "hash, of the ring |",
            "|---|---|---|---|---|---|---|"] + [
        f"| {s['size_bytes']} | {s['copy_ns']:.1f} | {s['hash_ns']:.1f} | "
        f"{s['copy_ns'] + s['hash_ns']:.1f} "
        f"| {s['ring_ns']:.1f} | {s['ring_ns'] / (s['copy_ns'] + s['hash_ns']):.2f} "
        f"| {s['hash_ns'] / s['ring_ns'] * 100:.0f} % |" for s in slots]


def points(table, run, mode):
    """{point: median} of a run that has an axis."""
    results = table.cell(run, mode).results if table.cell(run, mode) else []
    return ({point: statistics.median(r[point] for r in results) for point in results[0]} if results
            else {})


SWEEP_MODES = {"tcp": "TCP", "spin": "spinning", "nohash": "spinning, slots without hash",
               "sleep": "sleeping",
               "unix": "unix socket"}
SWEEP_TITLES = {"lat_by_size": "p50 of a round trip, µs", "bw_by_size": "throughput, Gb/s",
                "by_conns": "64 B round trips through epoll, k/s"}


def sweep_lines(table):
    lines = []
    for run in table.runs:
        if not run.axis:
            continue
        modes = [mode for mode in (TCP, SPIN, NO_HASH, SLEEP, UNIX) if mode in run.modes]
        by_mode = {mode: points(table, run, mode) for mode in modes}
        lines += ["", f"{SWEEP_TITLES[run.key]}, by {run.axis}:", "",
                  "| " + " | ".join([run.axis] + [SWEEP_MODES[mode.name] for mode in modes]) + " |",
                  "|---" * (len(modes) + 1) + "|"]
        for point in by_mode[TCP]:
            values = (by_mode[mode].get(point) for mode in modes)
            lines.append(f"| {point} | " + " | ".join("" if v is None else number(v)
                                                      for v in values) + " |")
    return lines


def markdown(table):
    return (faster_lines(table) + alone_lines(table) + figure_lines(table) + slot_lines(table)
            + sweep_lines(table))


def row_json(table, run, row):
    modes = {}
    for mode in run.modes:
        samples = table.samples(run, row, mode)
        modes[mode.name] = {"samples": samples,
                            "median": statistics.median(samples) if samples else None,
                            "ratio": table.ratio(run, row, mode) if TCP in run.modes else None}
    targets = []
    for target in row.targets:
        word, value = verdict(table, run, row, target)
        targets.append({"text": target.text(row.unit), "verdict": word, "value": value})
    return {"key": row.key, "run": run.key, "part": row.part, "title": row.title, "unit": row.unit,
            "lower_is_better": row.lower_is_better, "modes": modes, "targets": targets}


def run_json(table, run):
    modes = {}
    for mode in run.modes:
        cell = table.cell(run, mode)
        modes[mode.name] = {"results": cell.results, "errors": cell.errors,
                            "travel": {**vars(cell.travel), "verdict": cell.travel.verdict()}}
    return {"key": run.key, "axis": run.axis, "modes": modes}


def write_json(path, table, **about):
    result = {"when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
              "machine": stages.machine(), **about,
              "rows": [row_json(table, run, row) for run in table.runs for row in run.rows],
              "runs": [run_json(table, run) for run in table.runs]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    return result
