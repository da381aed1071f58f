#!/usr/bin/python3
"""A wire between network interfaces of this namespace (netlab.Lab): what comes in at one goes out
at all others, except for what it loses, doubles and delays. Usage: wire.py INTERFACE...; then a
line on stdin: "lose N twice N late N slow L cut L", the first three in percent. It answers "ok"
when that holds. Late frames wait for 1 to 30 ms, so that others overtake them. Interfaces have the
numbers 1, 2 and so on: "slow 3:100,4:50" delays what the third one sends or receives by 100 ms, and
"cut 1-3,2-3" carries nothing between these; "-" is an empty list.
"""
import heapq
import random
import select
import socket
import sys
import time

ALL = 3  # ETH_P_ALL
OUTGOING = 4  # PACKET_OUTGOING: our own frames, seen again
# with what the sender left to the hardware: checksums that are not computed yet
SOL_PACKET, VNET_HDR = 263, 15
VNET_BYTES = 10


def numbers(text, between):
    """The pairs of a list like 1-3,2-3."""
    return [tuple(map(int, pair.split(between))) for pair in text.split(",") if pair != "-"]


def main():
    ports = []
    for name in sys.argv[1:]:
        port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
        port.bind((name, ALL))
        port.setsockopt(SOL_PACKET, VNET_HDR, 1)
        port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        ports.append(port)
    dice = random.Random(1)
    faults = {"lose": 0, "twice": 0, "late": 0}
    cut, slow_s = set(), {}
    waiting, number = [], 0
    counts = dict.fromkeys(faults, 0)
    print("ok", flush=True)
    while True:
        timeout = max(0, waiting[0][0] - time.monotonic()) if waiting else None
        readable, _, _ = select.select([*ports, sys.stdin], [], [], timeout)
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, to, frame = heapq.heappop(waiting)
            to.send(frame)
        if sys.stdin in readable:
            line = sys.stdin.readline()
            if not line:
                return 0
            words = line.split()
            orders = dict(zip(words[::2], words[1::2]))
            faults = {key: int(orders[key]) for key in faults}
            cut = {pair for one in numbers(orders["cut"], "-") for pair in (one, one[::-1])}
            slow_s = {at: ms / 1000 for at, ms in numbers(orders["slow"], ":")}
            print("ok", *(f"{key} {value}" for key, value in counts.items()), flush=True)
        for at, port in enumerate(ports, 1):
            if port not in readable:
                continue
            frame, sender = port.recvfrom(65535)
            # Faults affect IP only: the kernel takes a second to repeat a lost ARP request.
            is_ip = frame[VNET_BYTES + 12:VNET_BYTES + 14] in (b"\x08\x00", b"\x86\xdd")
            if sender[2] == OUTGOING:
                continue
            if is_ip and dice.randrange(100) < faults["lose"]:
                counts["lose"] += 1
                continue
            copies = 1 + (is_ip and dice.randrange(100) < faults["twice"])
            counts["twice"] += copies - 1
            for far, to in enumerate(ports, 1):
                if to is port or (at, far) in cut:
                    continue
                for _ in range(copies):
                    wait_s = slow_s.get(at, 0) + slow_s.get(far, 0) if is_ip else 0
                    if is_ip and dice.randrange(100) < faults["late"]:
                        counts["late"] += 1
                        wait_s += dice.uniform(0.001, 0.03)
                    if wait_s:
                        number += 1
                        heapq.heappush(waiting, (time.monotonic() + wait_s, number, to, frame))
                    else:
                        to.send(frame)


if __name__ == "__main__":
    sys.exit(main())
