#!/usr/bin/python3
"""A stock iwpmd and rsockd: each asks the other one. iwpmd serves RDMA devices of the kernel by a
netlink family that is only there with such devices; here the test takes the kernel's place
(netlink_rdma.c), and all the rest is iwpmd's own.
"""
import os
import socket
import struct
import sys

import pm
from lib.harness import Failure, case, main
from net_rsockd import FIXED, SERVICE, asking, serving
from netlab import Lab

IWPMD = "/usr/sbin/iwpmd"
IWCM = 2  # the netlink client (rdma/rdma_netlink.h)
(REG_PID, ADD_MAPPING, QUERY_MAPPING, REMOVE_MAPPING, REMOTE_INFO, HANDLE_ERR, MAPINFO, MAPINFO_NUM,
 HELLO) = range(9)
ABI_VERSION = 4
REJECTED = 16  # IWPM_REMOTE_QUERY_REJECT


def u16(number):
    return struct.pack("=H", number)


def u32(number):
    return struct.pack("=I", number)


def text(string):
    return string.encode() + b"\0"


def sockaddr(ip, port):
    return struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + \
        socket.inet_aton(ip) + b"\0" * 120


def address(data):
    return socket.inet_ntoa(data[4:8]), struct.unpack(">H", data[2:4])[0]


class Iwpmd:
    """iwpmd on a host, and the kernel that it serves."""

    def __init__(self, host):
        self.t, self.seq, self.infos = host.t, 0, []
        if not os.path.exists(IWPMD):
            raise Failure(f"there is no {IWPMD}: it is in the package rdma-core")
        path = self.t.path("netlink")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.settimeout(20)
            listener.bind(path)
            listener.listen()
            library = os.path.join(self.t.bin, "..", "lib", "libnetlink_rdma.so")
            self.proc = host.run(["env", f"LD_PRELOAD={library}", f"NETLINK_RDMA={path}", IWPMD,
                                  "--systemd"], name="iwpmd")
            self.socket, _address = listener.accept()
        self.socket.settimeout(20)
        op, attributes = self.hear()
        self.t.equal((op, attributes[1]), (HELLO, u16(ABI_VERSION)), "iwpmd's first message")
        self.say(HELLO, u16(ABI_VERSION))
        self.t.equal(self.hear()[0], MAPINFO, "it asks what is mapped already")
        answer = self.ask(REG_PID, text("lan"), text("siw0"), text("iWarpPortMapperUser"))
        self.t.equal(answer[5], u16(0), "it has registered the device")

    def say(self, op, *attributes):
        """Sends a message; its attributes have the numbers from 1 on."""
        body = b""
        for number, data in enumerate(attributes, 1):
            body += struct.pack("=HH", 4 + len(data), number) + data + b"\0" * (-len(data) % 4)
        self.socket.send(struct.pack("=IHHII", 16 + len(body), IWCM << 10 | op, 0, self.seq, 0)
                         + body)

    def hear(self):
        """The next message: what it is, and its attributes by number."""
        data = self.socket.recv(8192)
        if not data:
            raise Failure(f"iwpmd has ended: {self.proc.describe()}")
        size, kind = struct.unpack("=IH", data[:6])
        self.t.equal((size, kind >> 10), (len(data), IWCM), "a netlink message")
        attributes, at = {}, 16
        while at < size:
            length, number = struct.unpack("=HH", data[at:at + 4])
            attributes[number] = data[at + 4:at + length]
            at += length + -length % 4
        return kind & 1023, attributes

    def ask(self, op, *attributes):
        """The answer to a request, which has its number."""
        self.seq += 1
        self.say(op, u32(self.seq), *attributes)
        while True:
            heard, answer = self.hear()
            if heard == op:
                self.t.equal(answer[1], u32(self.seq), "the request's number")
                return answer
            self.note(heard, answer)

    def note(self, op, attributes):
        if op != REMOTE_INFO:
            raise Failure(f"iwpmd says {op}: {attributes}")
        self.infos.append({name: address(attributes[number]) for number, name in
                           enumerate(("local", "remote", "mapped_local", "mapped_remote"), 2)})

    def listen(self, ip, port):
        """Maps an address of this host; returns the port that iwpmd has made for it."""
        answer = self.ask(ADD_MAPPING, sockaddr(ip, port), u32(0))
        self.t.equal((address(answer[2]), answer[4]), ((ip, port), u16(0)), "the mapping")
        mapped = address(answer[3])
        self.t.check(mapped[0] == ip and mapped[1] not in (0, port), mapped)
        return mapped[1]

    def query(self, local, remote):
        """Has iwpmd ask for a connection's remote address: that address, or an error's number."""
        answer = self.ask(QUERY_MAPPING, sockaddr(*local), sockaddr(*remote), u32(0))
        self.t.equal((address(answer[2]), address(answer[3])), (local, remote), "what was asked")
        error = struct.unpack("=H", answer[6])[0]
        return error or address(answer[5])

    def info(self):
        """What iwpmd says of a peer that has asked."""
        while not self.infos:
            self.note(*self.hear())
        return self.infos.pop(0)


@case(timeout=60)
def asks_rsockd(t):
    a, b = Lab(t, 2).hosts
    a.start(**serving(a))
    iwpmd = Iwpmd(b)
    t.equal(iwpmd.query((b.ip, 33000), (a.ip, SERVICE)), (a.ip, FIXED), "the RDMA address")
    t.until(lambda: a.counts()["acks"] == 1, 10, "its PMAck")
    made = iwpmd.query((b.ip, 33001), (a.ip, 6000))
    t.check(made[0] == a.ip and made[1] not in (0, 6000), f"a port that was made: {made}")
    t.until(lambda: a.counts()["acks"] == 2, 10, "the PMAck of that")
    t.equal(iwpmd.query((b.ip, 33002), (a.ip, 9)), REJECTED, "a service that is not mapped")
    # An iwpmd that hears no answer for a moment asks again.
    counts = a.counts()
    again = counts["duplicates"]
    t.equal([counts["requests"] - again - counts["denies"], counts["accepts"] - again,
             counts["malformed"]], [2, 2, 0], counts)
    t.check(1 <= counts["denies"] and counts["strays"] <= again, counts)


@case(timeout=60)
def answers_rsockd(t):
    a, b = Lab(t, 2).hosts
    a.add_address("10.77.1.1")
    a.start(**asking(a))
    iwpmd = Iwpmd(b)
    port = iwpmd.listen(b.ip, SERVICE)
    answer = a.map(b, SERVICE, cp_port=7)
    t.equal((answer["outcome"], answer["rdma"]), ("mapped", {"ip": b.ip, "port": port}), answer)
    info = iwpmd.info()
    t.equal((info["local"], info["mapped_local"], info["remote"]),
            ((b.ip, SERVICE), (b.ip, port), (a.ip, 7)), "what iwpmd says of us")
    t.equal(a.map(b, 9, cp_port=8)["outcome"], "refused", "what is not mapped there")
    # A link that comes from another address than the TCP connection: a PMReq of 64 bytes.
    a.write_config(**asking(a, rnics=[{"name": "rnic1", "addresses": ["10.77.1.1"]}]))
    a.post("/v1/reload", {})
    t.equal(a.map(b, SERVICE, cp_port=9)["rdma"], {"ip": b.ip, "port": port}, "from another RNIC")
    info = iwpmd.info()
    t.equal((info["remote"], info["mapped_remote"]), ((a.ip, 9), ("10.77.1.1", 0)), info)
    # A client that acknowledges nothing hears the PMAccept again, with all others that iwpmd has
    # not seen acknowledged. Of ours there are none.
    client = pm.Client(a, b.ip)
    accept = client.ask(b.ip, SERVICE, 10)
    for _ in range(2):
        t.equal(client.hear(), accept, "the PMAccept, once more")
    counts = a.counts("client")
    t.equal([counts[name] for name in ("mapped", "refused", "acks_again", "strays", "malformed")],
            [2, 1, 0, 0, 0], counts)


if __name__ == "__main__":
    sys.exit(main())
