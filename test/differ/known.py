"""Faults that are known and not mended yet: each names the fault and what the fuzzer leaves out because of it. An entry
goes when its fault is mended; `differ --no-known` runs without the table.
"""

# name: what is wrong. model.py asks for the name where it would otherwise make the calls.
KNOWN = {
    "epoll-order": "epoll_wait() does not tell in the order in which descriptors became ready (issue 19, 1.8)",
}

# Seeds whose difference has been looked at and is reported, but has no rule above: not run, and counted apart.
SEEDS = {
}
