#!/usr/bin/env python3
"""Checks that production runs what it contains: from main(), the hooks and the tables that the
sources begin with, each function of another file's reach (not static, or in a header) is called.

check-callers.py [BUILD]: fails on a function that nothing reaches, unless scripts/test-only.txt
lists it with a reason; on a line there that is not needed; on a function of the object files that
it does not find in the text. A function that only a member of a table names (".get = shm_get") is
reached when something that is reached uses that member. Names count, not types: two members of one
name are one.
"""
import argparse
import fnmatch
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("include", "fabric", "mapper", "stream", "preload", "tools")
# fabric/chaos.c is only for the tests.
APART = ("fabric/chaos.c", "fabric/chaos.h")
LIST = "scripts/test-only.txt"
# Comments go; a string could contain a brace at the start of a line, and goes as well.
NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
WORD = re.compile(r"[A-Za-z_]\w*")
MEMBER = re.compile(r"(?:->|\.)\s*([A-Za-z_]\w*)(?!\w)(?!\s*=[^=])")
SETS = re.compile(r"\.(\w+)\s*=\s*&?(\w+)\s*(?=[,}\n])")
# Names that these macros or the compiler make: hooks, and the exported names beside them.
HOOK = re.compile(r"rsk_(hook|early)_")


def code_of(path):
    text = path.read_text(encoding="utf-8").replace("\\\n", "  ")
    return NO_CODE.sub(lambda found: '""' if found.group()[0] == '"' else " ", text)


def name_of(head):
    """The name of the function that this head declares: the first name before a bracket that is in
    no other bracket."""
    depth = 0
    for found in re.finditer(r"(\w+)\s*\(|\(|\)", head):
        if found.group() == ")":
            depth -= 1
            continue
        if depth == 0 and found.group(1) not in (None, "__attribute__", "_Alignas"):
            return found.group(1)
        depth += 1
    return None


class File:
    """What a source has at its top level: functions, macros, and everything else (outside)."""

    def __init__(self, path):
        self.functions, self.macros = {}, {}
        outside, lines = [], iter(code_of(path).split("\n"))
        for line in lines:
            if line == "{":  # as clang-format has it: a function's body begins here
                body = []
                for line in lines:
                    if line == "}":
                        break
                    body.append(line)
                head = []
                while outside and outside[-1].strip() and not outside[-1].startswith("#") \
                        and not outside[-1].endswith((";", "}")):
                    head.insert(0, outside.pop())
                head = " ".join(head)
                self.functions[name_of(head)] = (head, head + "\n" + "\n".join(body))
                continue
            found = re.match(r"#\s*define\s+(\w+)(.*)", line)
            if found:
                self.macros[found.group(1)] = found.group(2)
            elif not line.startswith("#"):
                outside.append(line)
        self.outside = "\n".join(outside)
        if path.suffix == ".c" or path.suffix == ".h":
            # Declarations call nothing; what is left are initialisers.
            self.outside = " ".join(re.findall(r"=\s*(\{.*?^\}|[^;{]*);", self.outside,
                                               re.M | re.S))


class Graph:
    def __init__(self, files):
        self.files, self.set_by, self.owners, self.macros = files, {}, {}, {}
        self.reached, self.work = set(), []
        for name, file in files.items():
            for macro in file.macros:
                self.macros.setdefault(macro, []).append(name)
            for function, (head, _) in file.functions.items():
                if name.endswith(".h") or "static" not in head.split():
                    self.owners.setdefault(function, []).append(name)
            bodies = [body for _, body in file.functions.values()]
            for text in (file.outside, *bodies, *file.macros.values()):
                for member, function in SETS.findall(text):
                    self.set_by.setdefault(member, []).append((name, function))

    def begin(self):
        for name, file in self.files.items():
            self.use(name, file.outside)
            for function, (head, _) in file.functions.items():
                if (function == "main" or "constructor" in head or "destructor" in head
                    or (name.startswith("preload/") and (HOOK.match(function)
                                                         or not function.startswith("rsk_")))):
                    self.reach(name, "function", function)

    def reach(self, *node):
        if node not in self.reached:
            self.reached.add(node)
            self.work.append(node)

    def use(self, name, text):
        """What is in the text of a file is reached."""
        for member in MEMBER.findall(text):
            self.reach("", "member", member)
        for word in set(WORD.findall(SETS.sub("", text))):
            self.use_word(name, word)

    def use_word(self, name, word):
        file = self.files[name]
        for owner in [name] if word in file.functions else self.owners.get(word, ()):
            self.reach(owner, "function", word)
        for owner in [name] if word in file.macros else self.macros.get(word, ()):
            self.reach(owner, "macro", word)

    def run(self):
        self.begin()
        while self.work:
            name, kind, what = self.work.pop()
            if kind == "member":
                for owner, function in self.set_by.get(what, ()):
                    self.use_word(owner, function)
            elif kind == "macro":
                self.use(name, self.files[name].macros[what])
            else:
                self.use(name, self.files[name].functions[what][1])

    def unreached(self):
        return sorted((function, name) for function, names in self.owners.items() for name in names
                      if (name, "function", function) not in self.reached)


def read():
    files = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in (".c", ".h", ".def", ".S") and name not in APART:
                files[name] = File(path)
    return files


def listed():
    """Patterns of the list, with their reasons."""
    lines = (ROOT / LIST).read_text(encoding="utf-8").splitlines()
    return dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))


def not_found(build, files):
    """Functions of the object files that the text does not seem to have."""
    errors = []
    for path in Path(build).rglob("*.c.o"):
        before, _, after = str(path.relative_to(build)).partition("/CMakeFiles/")
        name = f"{before}/{after.partition('/')[2].removesuffix('.o')}"
        if name not in files:
            continue
        out = subprocess.run(["nm", "--portability", "--extern-only", "--defined-only", path],
                             check=True, capture_output=True, text=True).stdout
        for line in out.splitlines():
            function, kind, *_ = line.split()
            if kind == "T" and function.startswith("rsk_") and not HOOK.match(function) \
                    and function not in files[name].functions:
                errors.append(f"{name}: {function}: the script does not find it in the text")
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=ROOT / "build")
    args = parser.parse_args()
    graph = Graph(read())
    graph.run()
    reasons, used = listed(), set()
    errors = not_found(args.build, graph.files)
    for function, name in graph.unreached():
        found = [pattern for pattern in reasons if fnmatch.fnmatchcase(function, pattern)]
        used.update(found)
        if not found:
            errors.append(f"{name}: {function}: nothing in production calls it")
    errors += [f"{LIST}: {pattern}: not needed any more" for pattern in reasons
               if pattern not in used]
    for error in errors:
        print(error)
    functions = sum(len(names) for names in graph.owners.values())
    print(f"{functions} functions, {len(graph.unreached())} only for tests")
    return 1 if errors or functions < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
