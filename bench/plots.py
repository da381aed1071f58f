#!/usr/bin/env python3
"""plots.py RESULT.json [FOLDER]: draws plots of a result by gnuplot, as SVG and PNG. Also called by
the other comparisons."""
import json
import pathlib
import statistics
import subprocess
import sys

# Name, colour, mark.
MODES = {"tcp": ("kernel TCP", "#777777", 7), "unix": ("Unix socket", "#e69f00", 5),
         "sleep": ("rsock, sleeping", "#0072b2", 9),
         "nohash": ("rsock, spinning, without hash", "#cc79a7", 13),
         "spin": ("rsock, spinning", "#d55e00", 11)}
# File, title, axis labels, the axes that are logarithmic, run.
SWEEPS = (
    ("latency-by-size", "Round trip by message size, p50", "bytes", "µs", "xy", "lat_by_size"),
    ("throughput-by-size", "One stream by size of sends", "bytes a send", "Gb/s", "xy",
     "bw_by_size"),
    ("scaling", "64 B round trips through epoll, one thread at each end", "connections",
     "thousand a second", "xy",
     "by_conns"),
)
PERCENTILES = (("p1", 1), ("p5", 5), ("p10", 10), ("p25", 25), ("p50", 50), ("p75", 75),
               ("p90", 90), ("p95", 95),
               ("p99", 99), ("p995", 99.5), ("p999", 99.9), ("p9995", 99.95), ("p9999", 99.99))
TICKS = (0, 50, 90, 99, 99.9, 99.99)


def results_of(result, key, mode):
    runs = [run for run in result["runs"] if run["key"] == key]
    return runs[0]["modes"].get(mode, {}).get("results", []) if runs else []


def sweep_curves(result, key):
    """{mode: [(x, median, lowest, highest)]}"""
    curves = {}
    for mode in MODES:
        results = results_of(result, key, mode)
        if results:
            curves[mode] = [(float(x), statistics.median(r[x] for r in results),
                             min(r[x] for r in results),
                             max(r[x] for r in results)) for x in results[0]]
    return curves


def odds(percent):
    """One of how many samples lies beyond the percentile: 90, 99 and 99.9 have equal distances on a
    logarithmic axis."""
    return 100 / (100 - percent)


def distribution_curves(result, key):
    curves = {}
    for mode in MODES:
        times = [r["rtt_ns"] for r in results_of(result, key, mode)]
        if times:
            curves[mode] = [(odds(percent), *(f(t[name] / 1e3 for t in times)
                                              for f in (statistics.median, min, max)))
                            for name, percent in PERCENTILES]
    return curves


def size_text(number):
    """Short text of a size: 64, 4Ki, 1Mi."""
    for unit, name in ((1 << 20, "Mi"), (1 << 10, "Ki")):
        if number >= unit and number % unit == 0:
            return f"{number // unit}{name}"
    return str(number)


def xtics(values, text):
    return ", ".join(f'"{text(v)}" {v:.9g}' for v in values)


def script(title, xlabel, ylabel, logarithmic, curves, tics):
    """A gnuplot script: medians as lines, with bars from the lowest to the highest sample."""
    lines = ["set encoding utf8", f'set title "{title}"', f'set xlabel "{xlabel}"',
             f'set ylabel "{ylabel}"',
             "set grid", "set key left top", "set rmargin 4", f"set xtics ({tics})"]
    lines += [f"set logscale {axis}" for axis in logarithmic]
    for mode, points in curves.items():
        lines += [f"${mode} << END"] + [" ".join(f"{v:.9g}" for v in point)
                                        for point in points] + ["END"]
    drawn = []
    for mode in curves:
        name, colour, mark = MODES[mode]
        drawn.append(f'${mode} with yerrorlines linewidth 2 linecolor "{colour}" pointtype {mark} '
                     f'pointsize 0.7 '
                     f'title "{name}"')
    return "\n".join(lines + ["plot " + ", ".join(drawn)]) + "\n"


def gnuplot(text, stem):
    """Draws the same picture as SVG and as PNG."""
    drawn = []
    for terminal, ending in (("svg size 800,500 background 'white' font 'sans,13'", "svg"),
                             ("pngcairo size 800,500 font 'sans,11'", "png")):
        path = stem.with_suffix("." + ending)
        subprocess.run(["gnuplot"], input=f'set terminal {terminal}\nset output "{path}"\n{text}',
                       text=True,
                       check=True)
        drawn.append(path)
    return drawn


def draw(result, folder):
    """Draws all plots for which there are samples; returns the paths of the SVGs."""
    drawn = []
    for name, title, xlabel, ylabel, logarithmic, key in SWEEPS:
        curves = sweep_curves(result, key)
        if curves:
            at = sorted({int(point[0]) for curve in curves.values() for point in curve})
            tics = xtics(at, size_text)
            drawn += gnuplot(script(title, xlabel, ylabel, logarithmic, curves, tics),
                             folder / name)
    curves = distribution_curves(result, "lat_recv")
    if curves:
        tics = ", ".join(f'"{t:g} %%" {odds(t):.9g}' for t in TICKS)
        text = script("64 B round trips, distribution", "share of round trips that are faster",
                      "µs", "xy", curves,
                      tics)
        drawn += gnuplot(text, folder / "latency-distribution")
    return [path for path in drawn if path.suffix == ".svg"]


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    path = pathlib.Path(sys.argv[1])
    for drawn in draw(json.loads(path.read_text()),
                      pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else path.parent):
        print(drawn)


if __name__ == "__main__":
    main()
