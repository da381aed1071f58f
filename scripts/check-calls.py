#!/usr/bin/env python3
"""Checks the calls in the object files: they go down only, as cmake/floors.txt says, and form no
large circle.

check-calls.py [BUILD]: fails on a call, or a use of data, from a folder to one that its line in
floors.txt does not include; on a circle of more than CIRCLE sources that call each other; on a
folder of more than FOLDER sources. --list shows the circles that exist.
"""
import argparse
import collections
import subprocess
import sys
from pathlib import Path

import floors

ROOT = floors.ROOT
CIRCLE, FOLDER = 4, 25
# Groups that are linked together: if two programs have a function of the same name, each group has
# its own.
LIBRARY = ("mapper/wire", "mapper/peer", "mapper/stats")
SERVICE = ("mapper/pm", "mapper/host", "mapper/config", "mapper/policy", "mapper/local")
PROGRAMS = (("preload", "stream", "fabric", *LIBRARY), ("fabric/verbs", "fabric"),
            ("mechanisms", "stream", "fabric", "fabric/verbs", *LIBRARY),
            ("mapper/rsockd", *SERVICE, *LIBRARY, "fabric"),
            ("tools", *SERVICE, *LIBRARY))
SPLIT = ("stream", "mapper/rsockd", "tools", "mechanisms")  # including all of their layers
# fabric/chaos.c is only for the tests.
APART = ("fabric/chaos.c",)


def sources(build):
    """Object file by source, which is named by its path in the tree."""
    found = {}
    for path in Path(build).rglob("*.c.o"):
        before, _, after = str(path.relative_to(build)).partition("/CMakeFiles/")
        _, _, name = after.partition("/")
        source = f"{before}/{name.removesuffix('.o')}"
        if not (ROOT / source).exists():
            continue  # left from before the source was moved
        if "rsk_" in after.split("/")[0] or before in ("mapper/rsockd", "tools"):
            found.setdefault(source, path)
    return found


def folder_of(source):
    return source.rpartition("/")[0]


def programs_of(source):
    folder = folder_of(source)
    return {i for i, parts in enumerate(PROGRAMS)
            if any(folder == part or (folder.startswith(f"{part}/") and part in SPLIT)
                   for part in parts)}


def graph_of(objects):
    """The uses of symbols between sources."""
    owner, uses = {}, collections.defaultdict(set)
    for source, path in objects.items():
        out = subprocess.run(["nm", "--portability", "--extern-only", path], check=True,
                             capture_output=True, text=True).stdout
        for line in out.splitlines():
            name, kind, *_ = line.split()
            if not name.startswith("rsk_") and not source.startswith("tools/"):
                # Libc's functions, which preload/ implements, and the compiler's; the tool's names
                # have no prefix.
                continue
            if kind == "U":
                uses[source].add(name)
            elif kind not in "wv":
                owner.setdefault(name, set()).add(source)
    graph = collections.defaultdict(lambda: collections.defaultdict(set))
    for source, names in uses.items():
        for name in names:
            for other in owner.get(name, ()):
                if other != source and programs_of(source) & programs_of(other):
                    graph[source][other].add(name)
    return graph


def circles(nodes, graph):
    """Strongly connected components of two or more nodes (Tarjan's algorithm, not recursive)."""
    index, low, stack, on, found = {}, {}, [], set(), []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in nodes:
                    continue
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on.add(other)
                    work.append((other, iter(sorted(graph[other]))))
                    break
                if other in on:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    circle = []
                    while not circle or circle[-1] != node:
                        circle.append(stack.pop())
                        on.discard(circle[-1])
                    if len(circle) > 1:
                        found.append(sorted(circle))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=ROOT / "build")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    sees = floors.read()
    objects = {source: path for source, path in sources(args.build).items()
               if source not in APART and programs_of(source)}
    graph = graph_of(objects)
    errors = []
    for source in sorted(objects):
        if folder_of(source) not in sees:
            errors.append(f"{source}: {folder_of(source)} has no line in cmake/floors.txt")
            continue
        for other in sorted(graph[source]):
            if (folder_of(other) != folder_of(source)
                and folder_of(other) not in sees[folder_of(source)]):
                errors.append(f"{source} -> {other}: {', '.join(sorted(graph[source][other]))}: "
                              f"{folder_of(source)}/ is not above "
                              f"{folder_of(other)}/")
    found = circles(set(objects), graph)
    for circle in found:
        folders = {folder_of(source) for source in circle}
        if len(folders) > 1:
            errors.append(f"a circle of folders: {', '.join(circle)}")
        folder = folder_of(circle[0])
        if args.list:
            print(f"{folder}: {len(circle)}: {' '.join(Path(source).stem for source in circle)}")
        if len(circle) > CIRCLE:
            errors.append(f"{folder}/: {len(circle)} sources call each other in a circle: "
                          f"{' '.join(circle)}")
    sizes = collections.Counter(folder_of(source) for source in objects)
    for folder, n in sizes.items():
        if n > FOLDER:
            errors.append(f"{folder}/: {n} sources, {FOLDER} are the most")
    for error in errors:
        print(error)
    print(f"{len(objects)} sources, {sum(len(arrows) for arrows in graph.values())} arrows, "
          f"circles of {sorted(map(len, found), reverse=True)}")
    return 1 if errors or len(objects) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
