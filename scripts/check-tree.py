#!/usr/bin/env python3
"""Checks what no compiler checks: paths of a particular machine, hosts of package registries, files
that are too long, lines that are too wide."""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Written so that this file does not match itself.
FORBIDDEN = [
    (re.compile(r"(?<![\w.}/-])/(?:[w]ork|[f]arm|[r]oot|[h]ome/\w+)(?:/[\w.]|\b(?!/))"),
     "a path of one machine"),
    (re.compile(r"\b[f]arm-[a-z]+"), "a tool of one machine"),
    (re.compile(r"/tmp/(?:[r]sk|[b]uild-)"), "a path of one machine"),
    (re.compile(r"(?:[d]eb\.debian|[s]ecurity\.debian|[s]napshot\.debian)\.org"),
     "a package registry's host"),
    (re.compile(r"(?:[r]egistry\.npmjs|[p]ypi|[f]iles\.pythonhosted)\.org|[c]rates\.io"),
     "a package registry's host"),
]
LONG, TOO_LONG, WIDTH = 500, 600, 100
# What may be wider than WIDTH columns (a tab is 8), besides the fuzz targets' inputs: files with
# one line for each row of a table, drawings made by scripts; and in all others a row of a Markdown
# table, one word (a URL, a path), and one string of a JSON file, none of which can be broken.
WIDE_FILES = re.compile(r"scripts/(mutants|no-hook)\.txt|docs/drawings/\w+\.txt|docs/.*\.svg")
WIDE_LINES = [(re.compile(r".*\.md"), re.compile(r"\|.*\|")),
              (re.compile(r".*\.json"), re.compile(r'\s*("\w+": )?"[^"]*",?')),
              (re.compile(r".*"), re.compile(r"\s*([#*-]+ )?\S+"))]
README_LINES = 120
LARGE_BYTES = 1 << 20
# Pages that guide through the sources: the files and functions that they name must exist.
GUIDES = re.compile(r"docs/(architecture|how-to-add)\.md|docs/drawings/\w+\.txt")
FILE = re.compile(r"(?<![\w/.<…])((?:[\w-]+/)*[\w-]+\.(?:c|h|def|py|sh|pml|txt|cmake))\b(?!\w)")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def lost_names(name, text, files, sources):
    """Files and functions that a guide names and that do not exist."""
    ends = {"/".join(parts[at:]) for parts in (file.split("/") for file in files)
            for at in range(len(parts))}
    lost = {file for file in FILE.findall(text) if file not in ends}
    lost |= {word for word in re.findall(r"\brsk_\w+\b(?!…)", text)
             if not re.search(rf"\b{word}\b", sources)}
    return [f"{name}: {word}: nowhere in the tree" for word in sorted(lost)]


def lost_links(name, text):
    return [f"{name}: {link}: leads nowhere" for link in LINK.findall(text)
            if not (ROOT / name).parent.joinpath(link).exists()]


def wide_lines(name, lines):
    if WIDE_FILES.fullmatch(name):
        return []
    excepted = [line for file, line in WIDE_LINES if file.fullmatch(name)]
    return [f"{name}:{number}: {len(line.expandtabs(8))} columns, {WIDTH} at the most"
            for number, line in enumerate(lines, 1)
            if len(line.expandtabs(8)) > WIDTH
            and not any(pattern.fullmatch(line) for pattern in excepted)]


def main():
    out = subprocess.run([ROOT / "scripts/tracked.sh"], check=True, capture_output=True, text=True)
    errors, warnings, checked = [], [], 0
    files = out.stdout.splitlines()
    sources = "".join((ROOT / name).read_text(encoding="utf-8") for name in files
                      if name.endswith((".c", ".h")))
    for name in files:
        data = (ROOT / name).read_bytes()
        if len(data) > LARGE_BYTES:
            errors.append(f"{name}: {len(data)} bytes: git keeps it for ever")
        if b"\0" in data or name.startswith("test/fuzz/corpus/"):
            continue
        checked += 1
        text = data.decode("utf-8", "replace")
        lines = text.splitlines()
        for number, line in enumerate(lines, 1):
            for pattern, what in FORBIDDEN:
                if pattern.search(line):
                    errors.append(f"{name}:{number}: {what}: {line.strip()[:80]}")
            if line != line.rstrip() and not name.endswith(".md"):
                errors.append(f"{name}:{number}: white space at the end")
        if text and not text.endswith("\n"):
            errors.append(f"{name}: no newline at the end")
        errors += wide_lines(name, lines)
        if GUIDES.fullmatch(name):
            errors += lost_names(name, text, files, sources)
        if name.endswith(".md"):
            errors += lost_links(name, text)
        if name == "README.md" and len(lines) > README_LINES:
            errors.append(f"{name}: {len(lines)} lines, {README_LINES} at the most: details have "
                          f"pages of their own")
        if name.endswith((".c", ".h")):
            if len(lines) > TOO_LONG:
                errors.append(f"{name}: {len(lines)} lines, {TOO_LONG} at the most: it wants to be "
                              f"two files")
            elif len(lines) > LONG:
                warnings.append(f"warning: {name}: {len(lines)} lines, over {LONG}")
    for line in warnings + errors:
        print(line)
    print(f"{checked} files")
    return 1 if errors or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
