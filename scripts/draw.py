#!/usr/bin/env python3
"""draw.py [--check]: draws docs/drawings/*.svg from the texts beside them; --check only compares.

There are two kinds of drawing, which the text selects: layers (one above the other), or lanes
(events, from top to bottom). The first lines of a text explain its format. It needs only the
standard library.
"""
import re
import sys
import textwrap
from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).resolve().parent.parent / "docs/drawings"
INK, PALE, GREY, EDGE = "#222222", "#eef3f8", "#555555", "#7a8ca0"
COLOURS = ("#fdf3e4", "#eef3f8", "#e9f5ec")


class Drawing:
    """Lines of SVG, and the height used so far."""

    def __init__(self, width, title):
        self.width, self.lines, self.y = width, [], 54
        self.text(20, 30, title, 17, weight="bold")

    def text(self, x, y, what, size=12, colour=INK, weight="normal", family="sans-serif",
             anchor="start"):
        self.lines.append(f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" '
                          f'font-weight="{weight}" '
                          f'font-family="{family}" text-anchor="{anchor}">{escape(what)}</text>')

    def box(self, x, y, width, height, fill=PALE, edge=EDGE):
        self.lines.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" '
                          f'fill="{fill}" '
                          f'stroke="{edge}"/>')

    def arrow(self, x1, y1, x2, y2):
        self.lines.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{INK}" '
                          f'stroke-width="1.4" '
                          'marker-end="url(#tip)"/>')

    def svg(self, source):
        height = self.y + 16
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{height}" '
            f'viewBox="0 0 {self.width} {height}">',
                          f"<!-- drawn by scripts/draw.py from {source} -->",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto">'
            f'<path d="M0,0 L8,4 L0,8 z" fill="{INK}"/></marker></defs>',
            f'<rect width="{self.width}" height="{height}" fill="white"/>', *self.lines,
                          "</svg>"]) + "\n"


# ---- floors ----

def floors(lines, title):
    drawing, group = Drawing(900, title), None
    for word, rest in lines:
        if word == "group":
            group = (drawing.y, len(drawing.lines))
            name, what = (part.strip() for part in rest.split("|"))
            drawing.text(32, drawing.y + 20, name, 14, weight="bold", family="monospace")
            drawing.text(120, drawing.y + 20, what, 12, GREY)
            drawing.y += 32
        elif word == "end":
            top, place = group
            drawing.lines.insert(place,
                                 f'<rect x="20" y="{top}" width="860" height="{drawing.y - top}" '
                                 f'rx="6" '
                                        f'fill="none" stroke="{EDGE}" stroke-dasharray="5 3"/>')
            group, drawing.y = None, drawing.y + 10
        elif word == "floor":
            side_by_side(drawing, [[part.strip() for part in one.split("|")]
                                   for one in rest.split(" || ")], group)
        else:
            raise ValueError(f"{word}: title, group, floor or end is wanted")
    return drawing


def side_by_side(drawing, floors_of_row, group):
    left = 32 if group else 20
    width = (900 - 2 * left - 12 * (len(floors_of_row) - 1)) / len(floors_of_row)
    for number, (name, what, files) in enumerate(floors_of_row):
        x = left + number * (width + 12)
        narrow = len(floors_of_row) > 1
        drawing.box(x, drawing.y, width, 52 if narrow else 38,
                    COLOURS[1 if group else 0] if "/" in name or group else "#ffffff")
        drawing.text(x + 10, drawing.y + (17 if narrow else 23), name, 13, weight="bold",
                     family="monospace")
        drawing.text(x + (10 if narrow else 110),
                     drawing.y + (32 if narrow else 16 if files else 23), what, 12)
        drawing.text(x + (10 if narrow else 110), drawing.y + (46 if narrow else 31), files, 11,
                     GREY, family="monospace")
    drawing.y += 60 if len(floors_of_row) > 1 else 44


# ---- lanes ----

def lanes(lines, title):
    names = dict(part.strip().split(" ", 1)
                 for part in next(rest for word, rest in lines if word == "lanes").split("|"))
    drawing, width = Drawing(40 + 320 * len(names), title), 296
    left = {key: 20 + 320 * number + 12 for number, key in enumerate(names)}
    for key, name in names.items():
        drawing.text(left[key] + width / 2, drawing.y + 8, name, 13, weight="bold", anchor="middle")
    drawing.y += 22
    spans, before, top, bottom = {}, None, drawing.y, drawing.y
    for word, rest in lines:
        if word == "lanes":
            continue
        key, how = word[0], word[1:]
        if key not in names or how not in ("", ">", "=", "=>"):
            raise ValueError(f"{word}: one of {', '.join(names)}, alone or with >, = or =>")
        head, _, words = (part.strip() for part in rest.partition("|"))
        words = textwrap.wrap(words, 46)
        height = 24 + 14 * len(words)
        if "=" not in how:
            top = bottom + 12
        drawing.box(left[key], top, width, height, COLOURS[list(names).index(key)])
        drawing.text(left[key] + 8, top + 16, head, 12, weight="bold",
                     family="monospace" if "(" in head else "sans-serif")
        for number, line in enumerate(words):
            drawing.text(left[key] + 8, top + 31 + 14 * number, line, 11, GREY)
        middle = top + 18
        if ">" in how and before and before[0] != key:
            right = left[key] > left[before[0]]
            x1, x2 = (left[before[0]] + width,
                      left[key]) if right else (left[before[0]], left[key] + width)
            drawing.arrow(x1, before[1], x2, middle)
        if key in spans and spans[key] < top and "(" in head:  # the thread continues
            drawing.lines.insert(2,
                                 f'<line x1="{left[key] + width / 2}" y1="{spans[key]}" '
                                 f'x2="{left[key] + width / 2}" '
                                    f'y2="{top}" stroke="{EDGE}" stroke-dasharray="2 3"/>')
        spans[key] = top + height
        before, bottom = (key, middle), max(bottom, top + height)
    drawing.y = bottom
    return drawing


def drawn(path):
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line
             and not line.startswith("#")]
    pairs = [tuple(re.split(r"\s+", line, maxsplit=1)) if " " in line else (line, "")
             for line in lines]
    (word, title), rest = pairs[0], pairs[1:]
    if word != "title":
        raise ValueError(f"{path.name}: no title")
    kind = lanes if any(word == "lanes" for word, _ in rest) else floors
    return kind(rest, title).svg(path.name)


def main():
    texts = sorted(FOLDER.glob("*.txt"))
    if sys.argv[1:] not in ([], ["--check"]) or not texts:
        sys.exit(__doc__)
    old = []
    for path in texts:
        picture = path.with_suffix(".svg")
        svg = drawn(path)
        if sys.argv[1:] and (not picture.exists() or picture.read_text(encoding="utf-8") != svg):
            old.append(f"docs/drawings/{picture.name} is not what {path.name} gives: run "
                       f"scripts/draw.py")
        elif not sys.argv[1:]:
            picture.write_text(svg, encoding="utf-8")
    print("\n".join(old or [f"{len(texts)} drawings"]))
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
