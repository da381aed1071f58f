#!/usr/bin/env python3
"""Refuses the private words that this project once had for things with a name in the field.

Reads every tracked text file: names, comments, texts and file names. docs/glossary.md has the words
of today. A line that needs an old word for something else is allowed by ALLOWED, with the reason.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The old word as a regular expression, and what is said today.
OLD = {
    r"companions?": "TCP socket",
    r"carriers?": "path",
    r"keepers?": "progress thread",
    r"gongs?|lamps?": "wake eventfd, ready eventfd",
    r"bells?": "doorbell",
    r"naps?": "fd wait",
    r"mend(s|ed|ing)?": "recovery",
    r"heed(s|ed)?": "apply",
    r"wish(es|ed)?": "operator request",
    r"glances?": "peek",
    r"hearers?": "listener watches",
    r"centres?": "central agent",
    r"greet(s|ed|ing|ings)?": "link handshake",
    r"knock(s|ed)?": "connect to the listener",
    r"strangers?": "pending peer",
    r"handbacks?": "return of unread bytes",
    r"ringways?": "ring registration state",
    r"transact|transacted": "PM transaction",
    r"[rt]xmails?|mails?": "control word",
    r"boards?": "port table",
    r"joined|joining": "paired, pairing",
    r"seek(s|ing)?|sought": "peer lookup",
    r"guarded sections?": "signal-deferred section",
    r"join lock": "pairing lock",
    r"resting": "quiesced",
    r"frozen": "ring limit",
    r"steady": "fast path",
}
# Where an old word means what the field means by it: word, files, and a pattern of the line.
ALLOWED = (
    # a record
    ("joined",
     r"fabric/(locked|port_table)|mechanisms/locked|test/unit/test_locked|docs/adr/locked", r""),
    # threads, lists of conditions
    ("joined", r"bench/|scripts/gen-docs|test/(app|differ|unit)/|mapper/policy/", r""),
    # of a network device
    ("carrier", r"mapper/host/|test/net/net_hotplug|test/rdma/|test/unit/test_ifaces", r""),
    ("frozen", r"\.py$", r"frozen=True"),
    ("seek", r"", r"\.seek\(|\b[fl]?seek\(fd|\b_?l?seek\((in|other|file|s->|err_fd)|"
                  r"SEEK_(SET|CUR|END|DATA|HOLE)|\b\w*lseek\b"),
)
# What has the old words as a matter of history, or of its format.
SKIPPED = ("third_party/", "test/fuzz/corpus/", "scripts/check-words.py", "docs/gains",
           "CHANGELOG.md")


def allowed(old, name, line):
    return any(re.match(word, old) and re.search(files, name) and re.search(pattern, line)
               for word, files, pattern in ALLOWED)


def main():
    names = subprocess.run([ROOT / "scripts/tracked.sh"], check=True, capture_output=True,
                           text=True).stdout.split()
    words = [(re.compile(rf"(?<![A-Za-z])(?:{old})(?![A-Za-z])", re.IGNORECASE), today)
             for old, today in OLD.items()]
    errors, checked = [], 0
    for name in names:
        data = (ROOT / name).read_bytes()
        if name.startswith(SKIPPED) or b"\0" in data:
            continue
        checked += 1
        lines = [name, *data.decode("utf-8", "replace").splitlines()]
        for number, line in enumerate(lines):
            for pattern, today in words:
                found = pattern.search(line)
                if found and not allowed(found.group(0).lower(), name, line):
                    errors.append(f"{name}:{number}: {found.group(0)}: {today}")
    print("\n".join(errors) if errors else f"{checked} files have no word of the old ones")
    return 1 if errors or checked < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
