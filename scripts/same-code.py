#!/usr/bin/env python3
"""Compares two builds: does a move or a rename of code change the machine code?

same-code.py BEFORE AFTER: two build folders (or two binaries). Compares the instructions of
librsock.so, librsock-verbs.so, rsockd and rsock function by function; addresses, names and order of
functions and data, and the line of an assert(), do not count. Exits with 1 and names what differs.
"""
import collections
import re
import subprocess
import sys
from pathlib import Path

BINARIES = ("lib/librsock.so", "lib/librsock-verbs.so", "bin/rsockd", "bin/rsock")
FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
OFFSET = re.compile(r"-?0x[0-9a-f]+\(%rip\)")
LINE = re.compile(r"\$0x[0-9a-f]+,%edx$")  # the third argument of __assert_fail()
ASSERT = "call ASSERT"
PADDING = ("nop", "xchg   %ax,%ax", "cs nop", "data16", "int3")


def functions(binary):
    """Function bodies without names, with the number of times that each occurs."""
    out = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "-j", ".text", binary], check=True,
                         capture_output=True, text=True)
    bodies, name, body = collections.Counter(), None, []
    names = {}

    def without_lines():
        for at, code in enumerate(body):
            if code == ASSERT:
                for back in range(at - 1, max(at - 5, -1), -1):
                    if body[back].startswith("mov ") and LINE.search(body[back]):
                        body[back] = "mov LINE,%edx"
                        break

    def end():
        without_lines()
        while body and body[-1].startswith(PADDING):
            body.pop()
        if name:
            text = "\n".join(body)
            bodies[text] += 1
            names.setdefault(text, []).append(name)
    for line in out.stdout.splitlines():
        match = FUNCTION.match(line)
        if match:
            end()
            name, body = match.group(1), []
        elif "\t" in line and name:
            code = line.split("\t", 1)[1].strip()
            code = code.split(" <")[0] if "# " not in code else code.split("# ")[0]
            failed = "<__assert_fail@plt>" in line
            mnemonic, _, rest = code.partition(" ")
            rest = OFFSET.sub("DATA(%rip)", rest.strip())
            if mnemonic.startswith(("j", "call")) and re.fullmatch(r"[0-9a-f]+", rest):
                rest = "CODE" if not failed else "ASSERT"
            if not mnemonic.startswith(PADDING):
                body.append(f"{mnemonic} {rest}".strip())
    end()
    return bodies, names


def compare(before, after, what):
    (old, old_names), (new, new_names) = functions(before), functions(after)
    gone, come = old - new, new - old
    for text in gone:
        print(f"{what}: only before: {', '.join(old_names[text])}")
    for text in come:
        print(f"{what}: only after: {', '.join(new_names[text])}")
    print(f"{what}: {sum(old.values())} functions before, {sum(new.values())} after, "
          f"{sum((old & new).values())} the same")
    return not gone and not come and bool(old)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    before, after = map(Path, sys.argv[1:])
    pairs = ([(before, after, after.name)] if before.is_file()
             else [(before / b, after / b, b) for b in BINARIES])
    results = [compare(*pair) for pair in pairs]  # all, even after one that differs
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
