"""The port mapper's messages, written independently by hand: what the daemon sends is read by other
code.
"""
import ipaddress
import os
import socket
import struct

REQ, ACCEPT, ACK, DENY = range(4)
NAMES = {REQ: "PMReq", ACCEPT: "PMAccept", ACK: "PMAck", DENY: "PMDeny"}


def packed(address):
    return ipaddress.ip_address(address).packed.ljust(16, b"\0")


def message(op, ap, ap_port, cp, cp_port, handle, pm_time=0, mapped=None, mapped_port=0):
    """48 bytes; 64 with the address that the link comes from, as a stock iwpmd always sends a
    PMReq.
    """
    version = ipaddress.ip_address(ap).version
    head = struct.pack(">BBHHHQ", op << 4 | version, pm_time, mapped_port, ap_port, cp_port, handle)
    return head + packed(cp) + packed(ap) + (packed(mapped) if mapped else b"")


def parse(data):
    magic, pm_time, spare, ap_port, cp_port, handle = struct.unpack(">BBHHHQ", data[:16])
    size = 4 if magic & 15 == 4 else 16

    def address(raw):
        return str(ipaddress.ip_address(raw[:size]))
    return {"version": magic >> 6, "op": magic >> 4 & 3, "ipv": magic & 15, "pm_time": pm_time,
            "spare": spare,
            "ap_port": ap_port, "cp_port": cp_port, "handle": handle, "cp": address(data[16:32]),
            "ap": address(data[32:48]), "bytes": len(data)}


class Client:
    """A simple PM client in a host's namespace; 64-byte requests are a stock iwpmd's."""

    def __init__(self, host, to, six=False, port=3935):
        self.to = (to, port)
        with host.inside():
            self.socket = socket.socket(socket.AF_INET6 if six else socket.AF_INET,
                                        socket.SOCK_DGRAM)
        self.cp = host.ip6 if six else host.ip
        self.socket.settimeout(20)

    def handle(self):
        return int.from_bytes(os.urandom(8), "big") | 1

    def send(self, op, ap, ap_port, cp_port, handle, **more):
        self.socket.sendto(message(op, ap, ap_port, self.cp, cp_port, handle, **more), self.to)

    def hear(self, seconds=20):
        """The next message and its source; None if nothing comes."""
        self.socket.settimeout(seconds)
        try:
            data, source = self.socket.recvfrom(2048)
        except TimeoutError:
            return None
        return {**parse(data), "from": source[0]}

    def ask(self, ap, ap_port, cp_port, **more):
        handle = self.handle()
        self.send(REQ, ap, ap_port, cp_port, handle, **more)
        return self.hear()

    def acknowledge(self, accept):
        self.socket.sendto(message(ACK, accept["ap"], accept["ap_port"], accept["cp"],
                                   accept["cp_port"],
                                   accept["handle"]), self.to)
