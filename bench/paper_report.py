"""Reports the experiment of the dynamic transfer: tables beside the paper's figures, and plots.
Pure except for gnuplot. Called by rdma_paper.py."""
import dataclasses
import random
import statistics
import time

import plots
import stages
from rdma_report import table_lines

TIMER_MS = 50
METHODS = {"t": ("traditional", "#0072b2", 9), "d": ("dynamic", "#d55e00", 11),
           "a": ("at once", "#009e73", 7)}
SWEEPS = {"none": "nothing fails", "fail": "registration fails", "loss": "packets are lost",
          "both": "both",
          "frames": "slot sizes, three pings beside", "library": "the library's timer"}
# "Hardware Accelerated Dynamic RDMA Method for Gigabit Ethernet", Fig. 6 by percent, Fig. 7 by
# bytes of a frame.
PAPER = {("both", 1): -1.9, ("both", 5): -4.9, ("both", 10): -8.8,
         ("frames", 256): -12.0, ("frames", 512): -13.6, ("frames", 1024): -9.2}
RESAMPLES = 1000
ABOUT = ("Milliseconds from request to last byte. Change: of the others' means against "
         "traditional's, with 95 % of 1,000 resamples of "
         "pairs that ran one after the other. The guests are emulated and their RDMA devices "
         "software.")


def pairs(runs, method, base="t"):
    """Pairs of times in ns (base, method): each method was measured once in each group of
    neighbouring transfers."""
    found = []
    for run in runs:
        of = {name: [each["ns"] for each in run if each["method"] == name]
              for name in (base, method)}
        found += zip(of[base], of[method])
    return found


def change(found):
    """Change of the mean in percent."""
    return (sum(b for _, b in found) / sum(a for a, _ in found) - 1) * 100


def interval(found, dice=None):
    dice = dice or random.Random(1)
    changes = sorted(change(dice.choices(found, k=len(found))) for _ in range(RESAMPLES))
    return changes[int(RESAMPLES * 0.025)], changes[int(RESAMPLES * 0.975)]


def of_method(runs, method):
    """The figures of a point for one method."""
    all_ = [each for run in runs for each in run if each["method"] == method]
    means = [statistics.mean(own) for run in runs
             if (own := [each["ns"] for each in run if each["method"] == method])]
    times = [each["ns"] for each in all_]
    return {"transfers": len(all_), "mean_ns": statistics.mean(times),
            "median_ns": statistics.median(times),
            "lowest_run_ns": min(means), "highest_run_ns": max(means),
            "repeated": sum(each["requests"] > 1 for each in all_),
            "invalid": sum(each["invalid"] for each in all_),
            "by_indirect": sum(each["indirect_bytes"] > 0 for each in all_),
            "cpu_ns": statistics.mean(each["cpu_ns"] for each in all_),
            "peer_cpu_ns": statistics.mean(each["peer_cpu_ns"] for each in all_)}


def point_result(point, cell, methods):
    shown = {**dataclasses.asdict(point), "key": point.key, **cell}
    runs = [run for run in cell["transfers"] if run]
    shown["methods"] = {name: of_method(runs, name) for name in methods} if runs else {}
    shown["changes"] = {}
    for name in methods:
        found = pairs(runs, name)
        if name != "t" and found:
            shown["changes"][name] = {"percent": change(found), "interval": interval(found)}
    x = point.slot if point.sweep == "frames" else max(point.fail, point.loss)
    shown["paper"] = PAPER.get((point.sweep, x))
    return shown


def result(points, cells, about):
    return {"when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": stages.machine(), "note": ABOUT, **about,
            "points": [point_result(point, cells[point.key], about["methods"]) for point in points]}


def ms(ns):
    return f"{ns / 1e6:.1f}"


def change_text(changed):
    low, high = changed["interval"]
    return f"{changed['percent']:+.1f} % ({low:+.1f} to {high:+.1f})"


def markdown(result_):
    names = result_["methods"]
    rows, costs = [], []
    for point in result_["points"]:
        title = [SWEEPS[point["sweep"]], f"{point['fail']} %", f"{point['loss']} %",
                 str(point["slot"]), str(point["timer_ms"])]
        if not point["methods"]:
            rows.append(title + ["**failed**"] + [""] * (len(names) + 3))
            continue
        of = point["methods"]
        rows.append(title + [str(of["t"]["transfers"])] + [
            f"{ms(of[n]['mean_ns'])} ({ms(of[n]['lowest_run_ns'])} to "
            f"{ms(of[n]['highest_run_ns'])}); {ms(of[n]['median_ns'])}"
            for n in names] + [" / ".join(change_text(c) for c in point["changes"].values()),
                               "" if point["paper"] is None else f"{point['paper']:+.1f} %",
                               f"**{len(point['errors'])} runs failed**" if point["errors"]
                               else ""])
        costs.append(title + [" / ".join(str(of[n]["repeated"]) for n in names),
                              str(sum(of[n]["invalid"] for n in names)),
                              " / ".join(str(of[n]["by_indirect"]) for n in names),
                              " / ".join(ms(of[n]["cpu_ns"]) for n in names),
                              " / ".join(ms(of[n]["peer_cpu_ns"]) for n in names)])
    titles = " / ".join(METHODS[n][0] for n in names)
    heads = ["what", "registration fails", "lost", "slot, bytes", "timer, ms"]
    lines = [ABOUT, f"{result_['rounds']} rounds; {result_['bytes']} bytes a transfer; loss of: "
                    f"{result_['lossy']}; kernel "
             f"{result_['kernel']} in the guests; {result_['minutes']:.1f} minutes.", ""]
    lines += table_lines(heads + ["transfers by each",
                                  *(f"{METHODS[n][0]}: mean (runs' means); median" for n in names),
                                  "change of the mean", "paper", ""], rows)
    lines += ["", f"Of {titles}: transfers that had to ask again, answers that were invalid (of "
                  f"all), transfers with indirect bytes, "
              "processor time of a transfer in the client and in the server (ms, release and "
              "deregistration included).", ""]
    lines += table_lines(heads + ["asked again", "invalid", "indirect", "client's ms",
                                  "server's ms"], costs)
    return lines


# ---- plots -------------------------------------------------------------------------------------
def script(title, xlabel, tics, curves):
    """curves: {method: [(x, mean, lowest, highest of the runs' means)]} in ms."""
    lines = ["set encoding utf8", f'set title "{title}"', f'set xlabel "{xlabel}"',
             'set ylabel "ms a transfer, mean"', "set grid",
             "set key left top", "set rmargin 4", f"set xtics ({tics})", "set yrange [0:*]",
             "set offsets graph 0.03, 0.03, 0.1, 0"]
    for name, points in curves.items():
        lines += [f"${name} << END"] + [" ".join(f"{v:.9g}" for v in point)
                                        for point in points] + ["END"]
    drawn = [f'${name} with yerrorlines linewidth 2 linecolor "{METHODS[name][1]}" pointtype '
             f'{METHODS[name][2]} '
             f'title "{METHODS[name][0]}"' for name in curves]
    return "\n".join(lines + ["plot " + ", ".join(drawn)]) + "\n"


def curves_of(points, x_of, names):
    return {name: [(x_of(point), *(point["methods"][name][key] / 1e6
                                   for key in ("mean_ns", "lowest_run_ns", "highest_run_ns")))
                   for point in points] for name in names}


def draw(result_, stem):
    """Draws SVGs, each with a PNG beside it; returns the paths of the SVGs."""
    drawn = []
    there = [point for point in result_["points"] if point["methods"]]
    for sweep, title in SWEEPS.items():
        points = [point for point in there if point["sweep"] == sweep]
        frames = sweep == "frames"
        if not frames and sweep not in ("none", "library"):
            points = [point for point in there if point["sweep"] == "none"] + points
        if len(points) < 2:
            continue
        values = [point["slot"] if frames else max(point["fail"], point["loss"])
                  for point in points]
        at = {id(point): number if frames else value
              for number, (point, value) in enumerate(zip(points, values))}
        tics = ", ".join(f'"{value}" {at[id(point)]}' for point, value in zip(points, values))
        curves = curves_of(points, lambda point, at=at: at[id(point)], result_["methods"])
        text = script(f"128 KiB over Soft-RoCE: {title}", "bytes a slot" if frames else "percent",
                      tics, curves)
        drawn += plots.gnuplot(text, stem.with_name(f"{stem.name}-{sweep}"))
    return [path for path in drawn if path.suffix == ".svg"]
