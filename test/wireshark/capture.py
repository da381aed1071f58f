# SPDX-License-Identifier: BSD-2-Clause
"""Makes captures by hand, and reads what tshark says of them (test_dissector.py). Nothing is sent:
no privileges, no network.
"""
import ipaddress
import json
import os
import struct
import subprocess
import tempfile
from pathlib import Path

LUA = os.environ["RSOCK_LUA"]
LINKTYPE_RAW = 101
UDP, ICMP = 17, 1


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ip_packet(src, dst, proto, payload):
    src, dst = ipaddress.ip_address(src), ipaddress.ip_address(dst)
    if src.version == 6:
        return struct.pack(">IHBB", 6 << 28, len(payload), proto,
                           64) + src.packed + dst.packed + payload
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0, 64, proto, 0, src.packed,
                       dst.packed)
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + payload


def udp_packet(src, sport, dst, dport, data):
    a, b = ipaddress.ip_address(src).packed, ipaddress.ip_address(dst).packed
    udp = struct.pack(">HHHH", sport, dport, 8 + len(data), 0) + data
    pseudo = a + b + struct.pack(">II" if len(a) == 16 else ">HH",
                                 *((len(udp), UDP) if len(a) == 16 else (UDP, len(udp))))
    return ip_packet(src, dst, UDP,
                     udp[:6] + struct.pack(">H", checksum(pseudo + udp) or 0xFFFF) + udp[8:])


def icmp_unreachable(src, dst, packet):
    body = struct.pack(">BBHI", 3, 3, 0, 0) + packet
    return ip_packet(src, dst, ICMP, body[:2] + struct.pack(">H", checksum(body)) + body[4:])


def write_pcap(path, packets):
    """packets: (time in microseconds, the IP packet)."""
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, LINKTYPE_RAW))
        for us, data in packets:
            out.write(struct.pack("<IIII", us // 1000000, us % 1000000, len(data), len(data)) +
                      data)


def tshark(*args, script=True, home=None):
    """Runs tshark with a home and settings of its own; any complaint of Lua or tshark is a failure.
    """
    with tempfile.TemporaryDirectory() as own:
        env = {"PATH": os.environ["PATH"], "HOME": home or own, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        load = ["-X", f"lua_script:{LUA}"] if script else []
        done = subprocess.run(["tshark", *args, *load], env=env, capture_output=True, text=True,
                              timeout=60)
    complaints = [l for l in done.stderr.splitlines() if l and not l.startswith("Running as user ")]
    if done.returncode or complaints:
        raise AssertionError(f"tshark {args}: {done.returncode}: {complaints}")
    return done.stdout


def our_fields():
    """{name: Wireshark's type} of every field that the dissector registers."""
    rows = [line.split("\t") for line in tshark("-G", "fields").splitlines()]
    return {row[2]: row[3] for row in rows if row[0] == "F" and row[2].startswith("rsockpm.")}


def dissect(packets, *args, fields, **how):
    """A dict for each packet: the present fields, each with a list of values."""
    with tempfile.TemporaryDirectory() as folder:
        pcap = Path(folder, "x.pcap")
        write_pcap(pcap, packets)
        # Two passes: a request can only name its answer after that has been seen.
        out = tshark("-2", "-n", "-r", str(pcap), "-T", "json",
                     *(x for f in fields for x in ("-e", f)), *args, **how)
    return [row["_source"]["layers"] for row in json.loads(out)] if out.strip() else []


class Codec:
    """mapper/wire/pm_msg.c, by pm_codec."""

    def __init__(self):
        self.process = subprocess.Popen([os.environ["PM_CODEC"]], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE,
                                        text=True, bufsize=1)

    def _ask(self, *words):
        self.process.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def encode(self, op, *, ipv=4, pm_time=0, ap_port, cp_port=0, handle, cp, ap, mapped=None):
        answer = self._ask("encode", op, ipv, pm_time, ap_port, cp_port, handle, cp, ap,
                           *(mapped or ()))
        if answer.startswith("errno"):
            raise AssertionError(f"the codec refuses it: {answer}")
        return bytes.fromhex(answer)

    def decode(self, data):
        """The words of a message, or None where the codec refuses it."""
        answer = self._ask("decode", data.hex())
        return None if answer.startswith("errno") else answer.split()

    def close(self):
        self.process.stdin.close()
        if self.process.wait():
            raise AssertionError("pm_codec failed")
        self.process.stdout.close()
