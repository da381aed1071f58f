"""Clocks of emulated guests. At boot Linux measures the processor's time stamp counter against a
timer, in some milliseconds; where this machine is busy QEMU gets no processor meanwhile, and the
guest's clock goes several times as fast or as slow for as long as the guest lives. Its rates and
time limits are wrong then.
"""
import time

INTERVAL_S = 2
LIMIT = 1.1  # so many times as fast or as slow is wrong


class Reading:
    """What a guest's clock says, between two times of this machine's."""

    def __init__(self, guest):
        self.begin = time.monotonic()
        self.seconds = float(guest.sh("cat /proc/uptime").split()[0])
        self.end = time.monotonic()


def is_wrong(first, second):
    passed = second.seconds - first.seconds
    return not ((second.begin - first.end) / LIMIT < passed <
                (second.end - first.begin) * LIMIT)


def wrong(guests):
    """Those of the guests whose clock is wrong."""
    first = [Reading(guest) for guest in guests]
    time.sleep(INTERVAL_S)
    return [guest for guest, reading in zip(guests, first) if is_wrong(reading, Reading(guest))]
