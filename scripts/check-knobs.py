#!/usr/bin/env python3
"""Checks that every environment variable that the library reads is in librsock(7), with its range
and default, and in the README; and that no other is."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTANTS = {"UINT32_MAX": 2**32 - 1, "UINT64_MAX": 2**64 - 1}


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def policy_default(name):
    return int(re.search(rf"\.{name} = (\d+)", read("mapper/peer/policy.h")).group(1))


def value(text):
    """Value of a number, or of one of the few expressions that occur in knob()'s arguments."""
    text = text.strip()
    if text.startswith("policy."):
        return policy_default(text.removeprefix("policy."))
    if text == "RSK_RAILS_MOST":
        return int(re.search(r"define RSK_RAILS_MOST (\d+)u", read("fabric/rails.h")).group(1))
    if text == "RSK_SEG_MAX_RING >> 10":
        factor, shift = re.search(r"define RSK_SEG_MAX_RING \((\d+)u << (\d+)\)",
                                  read("fabric/segment.h")).groups()
        return int(factor) << int(shift) >> 10
    return CONSTANTS[text] if text in CONSTANTS else int(text)


def main():
    sources = "".join(p.read_text(encoding="utf-8")
                      for folder in ("stream", "preload", "mapper", "fabric")
                      for p in sorted((ROOT / folder).rglob("*.c")))
    names = set(re.findall(r'(?:getenv|knob)\("(RSOCK_\w+)"', sources))
    numbers = {n: [value(v) for v in args.split(",")]
               for n, args in re.findall(r'\bknob\("(RSOCK_\w+)",([^()]*)\)', sources)}
    page = read("docs/man/librsock.7")
    environment = page.split(".SH ENVIRONMENT", 1)[1].split(".SH", 1)[0]
    entries = dict(re.findall(r"^\.TP\n\.B (RSOCK_\w+)\n(.*?)(?=^\.TP|\Z)", environment,
                              re.M | re.S))
    table = set(re.findall(r"`(RSOCK_[A-Z_]+)",
                           read("README.md").split("## Knobs", 1)[1].split("\n## ", 1)[0]))
    errors = []
    for where, there in (("docs/man/librsock.7", set(entries)), ("README.md", table)):
        errors += [f"{where}: {name} is missing" for name in sorted(names - there)]
        errors += [f"{where}: {name} is read by nobody" for name in sorted(there - names)]
    for name, (default, least, most) in numbers.items():
        text = entries.get(name, "")
        # A switch is documented by what 1 does.
        wanted = [rf"\bDefault {default}\b", r"^1: " if (least, most) == (0, 1)
                  else rf"\b{least} to {most}\b"]
        errors += [f"docs/man/librsock.7: {name}: not found: {w}" for w in wanted
                   if not re.search(w, text, re.M)]
    if len(numbers) < 5 or len(names) < 8:
        errors.append(f"only {sorted(names)} were found in the sources: this check has lost its "
                      f"way")
    print("\n".join([*errors, f"{len(names)} knobs"]))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
