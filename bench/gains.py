#!/usr/bin/env python3
"""gains.py [--check | RESULT.json]: draws docs/gains.svg, the picture of the README, from what
`make bench` measured.

With a result (build/bench/bench.json) the figures that are drawn are first saved in
docs/gains.json; put the table that `make bench` printed into docs/performance.md in the same
commit. Without one the picture is drawn again from docs/gains.json. --check only compares the
picture with docs/gains.json, and that with the table.
"""
import json
import math
import re
import sys
from pathlib import Path
from xml.sax.saxutils import escape

from table import NOISE, apart

DOCS = Path(__file__).resolve().parent.parent / "docs"
KEPT, PICTURE, TABLE = DOCS / "gains.json", DOCS / "gains.svg", DOCS / "performance.md"
# The rows that are drawn, whatever their result, with their labels.
ROWS = {
    "lat_recv": "64 B ping-pong, recv",
    "lat_epoll": "64 B ping-pong, epoll",
    "rate": "64 B messages, one way",
    "bw_1m": "1 MiB sends",
    "iperf3": "iperf3, 1 stream",
    "redis_get_1": "redis GET, 1 client",
    "redis_get_50": "redis GET, 50 clients",
    "redis_get_p16": "redis GET, 50 clients, pipeline 16",
    "nginx_1_p50": "nginx 612 B, 1 connection",
    "nginx_64": "nginx 612 B, 64 connections",
    "nginx_file": "nginx 1 MiB file",
    "memcached": "memcached, 16 connections",
    "conn": "connect, 64 B, reply, close",
}
MODES = {"spin": ("librsock, spinning", "#d55e00"), "sleep": ("librsock, sleeping", "#0072b2"),
         "unix": ("Unix socket, no librsock", "#e69f00")}
TICKS = (0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256)
LEFT, RIGHT, TOP, BAR, GROUP, WIDTH = 250, 60, 64, 8, 38, 860


def kept_of(result):
    """The part of a `make bench` result that is drawn."""
    rows = {row["key"]: row for row in result["rows"]}
    missing = sorted(set(ROWS) - set(rows))
    if missing:
        sys.exit(f"the result has no {', '.join(missing)}: make bench measures all rows, make "
                 f"bench-quick does not")
    kept = []
    for key in ROWS:
        modes, tcp = {}, rows[key]["modes"]["tcp"]["samples"]
        for mode in MODES:
            found = rows[key]["modes"].get(mode)
            if found and found["ratio"]:
                ratio = round(found["ratio"], 2)
                modes[mode] = {"ratio": ratio, "gain": abs(found["ratio"] - 1) > NOISE
                               and apart(found["samples"], tcp)}
        kept.append({"key": key, "title": rows[key]["title"], "modes": modes})
    machine = result["machine"]
    return {"run": f"{result['when'][:10]}, {machine['cpus']} processors ({machine['cpu']}), Linux "
                   f"{machine['kernel']}",
            "rows": kept}


def at(ratio):
    """Position of a ratio on the logarithmic axis."""
    share = math.log(ratio / TICKS[0]) / math.log(TICKS[-1] / TICKS[0])
    return LEFT + (WIDTH - LEFT - RIGHT) * min(max(share, 0), 1)


def text(x, y, what, anchor="start", size=13, colour="#222222"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
            f'text-anchor="{anchor}">'
            f"{escape(what)}</text>")


def bar(ratio, gain, y, colour):
    left, right = sorted((at(1), at(ratio)))
    fill = colour if gain else "none"
    return [f'<rect x="{left:.1f}" y="{y}" width="{max(right - left, 1):.1f}" height="{BAR}" '
            f'fill="{fill}" '
            f'stroke="{colour}"/>',
            text(right + 4, y + BAR - 0.5, f"{ratio:.2f}×" + ("" if gain else " (no gain)"), size=9,
                 colour="#555555")]


def svg(kept):
    bottom = TOP + GROUP * len(kept["rows"])
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom + 50}" '
             f'viewBox="0 0 {WIDTH} {bottom + 50}" font-family="sans-serif">',
             "<!-- drawn by bench/gains.py from docs/gains.json -->",
             f'<rect width="{WIDTH}" height="{bottom + 50}" fill="white"/>',
             text(16, 24, "How many times better than kernel TCP on one host (logarithmic)",
                  size=15)]
    x = 16
    for name, colour in MODES.values():
        lines += [f'<rect x="{x}" y="36" width="12" height="{BAR}" fill="{colour}"/>',
                  text(x + 18, 44.5, name, size=12)]
        x += 190
    for tick in TICKS:
        lines += [f'<line x1="{at(tick):.1f}" y1="{TOP - 6}" x2="{at(tick):.1f}" y2="{bottom}" '
                  f'stroke="{"#444444" if tick == 1 else "#dddddd"}"/>',
                  text(at(tick), bottom + 16, "TCP" if tick == 1 else f"{tick:g}×", "middle", 11)]
    for number, row in enumerate(kept["rows"]):
        y = TOP + GROUP * number
        lines.append(text(LEFT - 12, y + GROUP / 2, ROWS[row["key"]], "end"))
        for place, (mode, found) in enumerate((m, row["modes"][m]) for m in MODES
                                              if m in row["modes"]):
            lines += bar(found["ratio"], found["gain"], y + 3 + place * (BAR + 3), MODES[mode][1])
    lines.append(text(16, bottom + 40,
                      f"One run: {kept['run']}. Hollow: the samples overlap with those of TCP. "
                      "All rows: docs/performance.md", size=11, colour="#555555"))
    return "\n".join(lines + ["</svg>"]) + "\n"


def cell_text(found):
    """The cell's text as report.ratio_text() writes it."""
    if not found:
        return ""
    ratio = f"{found['ratio']:.2f}×"
    return (f"no gain, {ratio}" if not found["gain"] else f"**{ratio}**" if found["ratio"] > 1
            else f"slower, {ratio}")


def check(kept):
    """The differences, as a list of texts."""
    errors = ([] if PICTURE.read_text() == svg(kept)
              else ["docs/gains.svg is not what docs/gains.json gives"])
    table = {}
    for line in TABLE.read_text().splitlines():
        cells = re.split(r" *\| *", line.strip("| "))
        if line.startswith("| P") and len(cells) > 4:
            table[cells[1]] = cells[2:5]
    for row in kept["rows"]:
        wanted = [cell_text(row["modes"].get(mode)) for mode in MODES]
        if table.get(row["title"]) != wanted:
            errors.append(f"docs/performance.md: {row['title']}: {table.get(row['title'])}, "
                          f"docs/gains.json: {wanted}")
    return errors


def main():
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    if sys.argv[1:] == ["--check"]:
        errors = check(json.loads(KEPT.read_text()))
        print("\n".join(errors + ["bench/gains.py draws it again"] if errors
                        else ["the picture is that of the table"]))
        return 1 if errors else 0
    if sys.argv[1:]:
        kept = kept_of(json.loads(Path(sys.argv[1]).read_text()))
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    kept = json.loads(KEPT.read_text())
    PICTURE.write_text(svg(kept))
    print(PICTURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
