#!/usr/bin/env python3
"""Checks docs/conformance.md against the sources: each row names files, functions and tests that
exist, functions of rows that are done have callers in production code, and no number is missing."""
import functools
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/conformance.md"
SPECS = ("HS", "OD", "LA", "DT", "PM")
PRODUCTION = ("preload", "stream", "fabric", "mapper", "include", "tools")
COLUMNS = r" \| ".join([r"([A-Z]+)-(\d+)"] + [r"(\S|\S.*?\S)"] * 4)
ROW = re.compile(rf"\| {COLUMNS} \|")
# The tables of rows follow this heading of their columns.
HEADING = "| id | the specification demands | done by | fails without it | state |"
STATES = ("done", "partly", "test only", "not done")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)


@functools.cache
def text_of(name):
    """The text of a file, without comments in C; None if there is no such file."""
    path = ROOT / name
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    return COMMENT.sub("", text) if name.endswith((".c", ".h")) else text


@functools.cache
def sources():
    return [path.relative_to(ROOT).as_posix() for folder in PRODUCTION
            for pattern in ("*.c", "*.h") for path in sorted((ROOT / folder).rglob(pattern))]


def definition(text, function):
    """What precedes the function's name where it has a body; None: it has none."""
    for found in re.finditer(rf"^([A-Za-z_][^\n;=]*?)\b{function}\(", text, re.M):
        depth, at = 1, found.end()
        while depth and at < len(text):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        if text[at:].lstrip().startswith("{"):
            return found.group(1)
    return None


@functools.cache
def mentions(name, function):
    """Lines of production code that mention a function, except where it begins a line: there it is
    declared or defined. A static function of a source is looked for in that source only."""
    before = definition(text_of(name), function) or ""
    static = "static" in before.split() and name.endswith(".c")
    lines = [line for file in ([name] if static else sources()) if function in text_of(file)
             for line in text_of(file).splitlines() if re.search(rf"\b{function}\b", line)
             and not re.match(rf"[A-Za-z_].*\b{function}\(", line)]
    if function.startswith("rsk_hook_"):  # preload/export.h makes this name of a row
        symbol = function.removeprefix("rsk_hook_")
        lines += re.findall(rf"^RSK_.*\b{symbol}\b.*$", text_of("preload/symbols.def"), re.M)
    return lines


def wrong_function(reference, state):
    name, _, function = reference.partition(":")
    text = text_of(name)
    if text is None:
        return f"{name}: there is no such file"
    if name.endswith(".py"):
        there = re.search(rf"^ *def {re.escape(function)}\(", text, re.M)
    else:
        there = re.fullmatch(r"\w+", function) and definition(text, function) is not None
    if not there:
        return f"{reference}: the file does not define that function"
    if name.startswith("mechanisms/") and state != "test only":
        return f"{reference}: it is not part of production, and the row is {state}"
    if name.split("/")[0] not in PRODUCTION:
        return None
    if state == "done" and not mentions(name, function):
        return f"{reference}: nothing in production code calls it"
    if state == "test only" and any(re.search(rf"\b{function}\(", line)
                                    for line in mentions(name, function)):
        return f"{reference}: it has a caller in production code"
    return None


def wrong_test(reference):
    name, _, case = reference.partition(":")
    text = text_of(name)
    if text is None:
        return f"{name}: there is no such file"
    if re.fullmatch(r"test/fuzz/fuzz_\w+\.c", name) and not case:
        return None
    if name.endswith(".py"):
        patterns = (rf"^@case\b.*\n(?:@.*\n)*def {case}\(", rf"^    def (?=test_){case}\(self")
    elif name.endswith("CMakeLists.txt"):
        patterns = (rf"^\s*add_test\(NAME {case} ",)
    else:
        patterns = (rf"^Test\(\w+,\s*{case}\b", rf"^CASE\({case}\b")
    if not re.fullmatch(r"\w+", case) or not any(re.search(p, text, re.M) for p in patterns):
        return f"{reference}: the file has no such case"
    return None


def references(cell):
    """The references of a cell, or None if it has anything else."""
    found = re.findall(r"`([^`]+)`", cell)
    return found if cell == (", ".join(f"`{one}`" for one in found) or "none") else None


def wrong_row(functions, tests, state):
    errors = []
    kind, _, missing = state.partition(": ")
    functions, tests = references(functions), references(tests)
    if kind not in STATES or bool(missing) == (kind == "done"):
        return [f"the state is \"done\", or another one and what is missing: {state}"]
    if functions is None or tests is None:
        return ["a cell of functions or tests has something else"]
    if kind == "done" and not functions:
        errors.append("it is done, and names no function")
    if kind in ("done", "test only") and not tests:
        errors.append(f"it is {kind}, and names no test")
    errors += [wrong_function(one, kind) for one in functions]
    errors += [wrong_test(one) for one in tests]
    return [error for error in errors if error]


def main():
    errors, numbers, states = [], {spec: [] for spec in SPECS}, {}
    in_table = False
    for line in (ROOT / PAGE).read_text(encoding="utf-8").splitlines():
        in_table = line == HEADING or (in_table and line.startswith("|"))
        if not in_table or line == HEADING or set(line) <= set("|-"):
            continue
        row = ROW.fullmatch(line)
        if not row or row.group(1) not in numbers:
            errors.append(f"no row of five columns: {line[:60]}")
            continue
        spec, number, _demand, functions, tests, state = row.groups()
        numbers[spec].append(int(number))
        kind = state.partition(": ")[0]
        states[kind] = states.get(kind, 0) + 1
        errors += [f"{spec}-{number}: {error}" for error in wrong_row(functions, tests, state)]
    for spec, had in numbers.items():
        errors += [f"{spec}-{n}: is there {had.count(n)} times"
                   for n in sorted(set(had)) if had.count(n) > 1]
        errors += [f"{spec}-{n}: is missing" for n in range(1, max(had, default=1) + 1)
                   if n not in had]
    for error in errors:
        print(f"{PAGE}: {error}")
    print(", ".join(f"{count} {kind}" for kind, count in sorted(states.items())))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
