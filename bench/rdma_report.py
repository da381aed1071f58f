"""Reports a comparison between two guests: tables, a plot, JSON. Called by rdma.py."""
import json
import statistics
import time

import plots
import report
import stages
from rdma_stage import ASLEEP, GET_EACH, GET_ONCE, MODES, PEERS, RSOCK, RSOCKET, SMC_R, Witness
from report import number
from stages import LIMIT, TCP
from table import spread

TITLES = {TCP: "kernel TCP", RSOCKET: "rsocket", SMC_R: "SMC-R", RSOCK: "rsock",
          LIMIT: "bare verbs",
          ASLEEP: "bare verbs, asleep", GET_EACH: "get, registered for each",
          GET_ONCE: "get, registered once"}
COLOURS = {RSOCKET: "#e69f00", SMC_R: "#0072b2", RSOCK: "#d55e00", LIMIT: "#777777",
           ASLEEP: "#bbbbbb", GET_EACH: "#009e73", GET_ONCE: "#56b4e9"}
OTHERS = (RSOCKET, SMC_R)  # rsock is to be ahead of these
ABOUT = ("The guests are emulated (TCG) and their RDMA devices software (Soft-RoCE): only ratios "
         "within this run mean something. "
         "Ratios: how many times better, below 1 is worse; round by round, their median, lowest "
         "and highest.")


def went(table, run, mode):
    """True if there are samples and all of them used the transport that they are to measure."""
    cell = table.cell(run, mode)
    return bool(cell and cell.results) and all(result["accelerated"] for result in cell.results)


def failed(table, run, mode):
    cell = table.cell(run, mode)
    return bool(cell and cell.errors and not cell.results)


def figure_text(table, run, row, mode):
    if not table.cell(run, mode):
        return ""
    samples = table.samples(run, row, mode)
    if not samples:
        return "**failed**"
    text = f"{number(statistics.median(samples))} ±{spread(samples) * 50:.0f} %"
    return text if went(table, run, mode) else f"({text})"


def ratios(table, run, row, mode, base):
    """Ratios by round, since neighbours in time share the machine's other load; only rounds that
    have both."""
    if not table.cell(run, mode) or not table.cell(run, base):
        return []
    bases = {result["round"]: row.figure(result) for result in table.cell(run, base).results}
    return [row.gain(bases[result["round"]], row.figure(result))
            for result in table.cell(run, mode).results
            if result["round"] in bases]


def ratio_text(table, run, row, mode, base):
    """Median, lowest and highest ratio; marked if it does not represent the named transport."""
    found = ratios(table, run, row, mode, base)
    if not found:
        return "" if not table.cell(run, mode) or not table.cell(run, base) else "**failed**"
    text = f"{statistics.median(found):.2f}× ({min(found):.2f} to {max(found):.2f})"
    if not went(table, run, mode) or not went(table, run, base):
        return f"**not accelerated**, {text}"
    return f"**{text}**" if min(found) > 1 else text


def ahead_text(table, run, row):
    """Is rsock ahead of the other two?"""
    if not table.samples(run, row, RSOCK):
        return "**failed**"
    if not went(table, run, RSOCK):
        return "**not accelerated**"
    behind = [TITLES[other] for other in OTHERS if went(table, run, other)
              and not statistics.median(ratios(table, run, row, RSOCK, other) or [0]) > 1]
    absent = [TITLES[other] for other in OTHERS if not went(table, run, other)]
    told = f" (nothing of {', '.join(absent)})" if absent else ""
    return (f"**not ahead** of {', '.join(behind)}" if behind else "ahead") + told


def limit_text(table, run, row, limit):
    """Each transport's figure relative to bare verbs."""
    if not table.cell(run, limit):
        return ""
    found = [ratios(table, run, row, mode, limit) if went(table, run, mode) else None
             for mode in PEERS]
    return " / ".join(f"{1 / statistics.median(each):.2f}" if each else "-" for each in found)


def witness_of(cell):
    return sum((Witness(**result["witness"]) for result in cell.results), Witness())


def way_text(table, run, mode):
    """The path used, by the kernels' counters and by the transport's own report."""
    cell = table.cell(run, mode)
    if not cell:
        return ""
    parts = []
    if cell.results:
        seen = witness_of(cell)
        parts.append(f"{stages.floor_percent(seen.share())} RDMA")
        if mode is SMC_R:
            parts.append(f"{seen.smc_connections} ends SMC-R, {seen.smc_fallbacks} fell back")
        if mode is RSOCK:
            parts.append(cell.travel.text())
        if mode is not TCP and not went(table, run, mode):
            parts.insert(0, "**NOT ACCELERATED**")
    if cell.errors:
        parts.append(f"**{len(cell.errors)} failed**: {' '.join(cell.errors[0].split())[:200]}")
    return "; ".join(parts).replace("|", "/")


def table_lines(heads, rows):
    return ["| " + " | ".join(heads) + " |",
            "|---" * len(heads) + "|"] + ["| " + " | ".join(row) + " |" for row in rows]


def markdown(table):
    rows = [(run, row) for run in table.runs for row in run.rows]
    lines = [ABOUT, ""]
    lines += table_lines(
        ["what", *(f"{TITLES[mode]} to TCP" for mode in PEERS[1:]),
         *(f"rsock to {TITLES[other]}" for other in OTHERS),
         "rsock ahead of both", "times bare verbs (TCP / rsocket / SMC-R / rsock)",
         "the same, of those asleep"],
        [[row.title, *(ratio_text(table, run, row, mode, TCP) for mode in PEERS[1:]),
          *(ratio_text(table, run, row, RSOCK, other) for other in OTHERS),
          ahead_text(table, run, row),
          limit_text(table, run, row, LIMIT), limit_text(table, run, row, ASLEEP)]
         for run, row in rows])
    lines += ["", "Medians behind them, with half the distance from lowest to highest sample; in "
                  "brackets: not accelerated.", ""]
    lines += table_lines(["what", "unit", *(TITLES[mode] for mode in MODES)],
                         [[row.title, row.unit, *(figure_text(table, run, row, mode)
                                                  for mode in MODES)] for run, row in rows])
    lines += ["", "How the bytes went: the share of RoCE in its packets and TCP's segments with "
                  "data, counted by both guests' "
              "kernels; then what SMC's counters and rsock's statistics say.", ""]
    lines += table_lines(["run", *(TITLES[mode] for mode in MODES)],
                         [[run.key, *(way_text(table, run, mode) for mode in MODES)]
                          for run in table.runs])
    return lines


# ---- JSON --------------------------------------------------------------------------------------
def row_json(table, run, row):
    shown = report.row_json(table, run, row)
    shown["ahead"] = ahead_text(table, run, row).replace("*", "")
    for mode in run.modes:
        found = ratios(table, run, row, mode, TCP)
        shown["modes"][mode.name].update(accelerated=went(table, run, mode), ratios=found,
                                         ratio=statistics.median(found) if found else None)
    return shown


def write_json(path, table, **about):
    result = {"when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
              "machine": stages.machine(), "note": ABOUT, **about,
              "rows": [row_json(table, run, row) for run in table.runs for row in run.rows],
              "runs": [report.run_json(table, run) for run in table.runs]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    return result


# ---- the plot ----------------------------------------------------------------------------------
def bars(result):
    """(titles, {mode: [ratio to TCP, or None]}) for the rows in which TCP has samples."""
    rows = [row for row in result["rows"] if row["modes"][TCP.name]["samples"]]
    columns = {}
    for mode in COLOURS:
        cells = [row["modes"].get(mode.name) for row in rows]
        columns[mode] = [cell["ratio"] if cell and cell["accelerated"] else None for cell in cells]
    return [row["title"] for row in rows], columns


def script(titles, columns):
    """A gnuplot script; transports that were not accelerated have no bar."""
    lines = ["set encoding utf8",
             'set title "Two guests over Soft-RoCE: how many times kernel TCP"', "set grid ytics",
             "set logscale y 2", 'set ylabel "times kernel TCP (more is better)"',
             "set style data histogram",
             "set style histogram clustered gap 1", "set style fill solid 0.8",
             "set key outside top center horizontal",
             "set xtics rotate by -35 scale 0", "set rmargin 10", 'set datafile missing "-"',
             "$bars << END"]
    for number_, title in enumerate(titles):
        ratios = (column[number_] for column in columns.values())
        lines.append(f'"{title}" ' + " ".join("-" if ratio is None else f"{ratio:.6g}"
                                              for ratio in ratios))
    lines += ["END", "plot 1 with lines linecolor 'black' title 'kernel TCP', " + ", ".join(
        f'$bars using {column}:xtic(1) linecolor "{COLOURS[mode]}" title "{TITLES[mode]}"'
        for column, mode in enumerate(columns, 2) if any(ratio is not None
                                                         for ratio in columns[mode]))]
    return "\n".join(lines) + "\n"


def draw(result, stem):
    """stem: path of the files without suffix."""
    titles, columns = bars(result)
    if not any(ratio is not None for column in columns.values() for ratio in column):
        return []
    return [path for path in plots.gnuplot(script(titles, columns), stem) if path.suffix == ".svg"]
