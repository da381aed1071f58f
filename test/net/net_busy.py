#!/usr/bin/python3
"""A peer with many requests at once. They may arrive, and the answers may leave, as one buffer that
the kernel splits (UDP_SEGMENT, UDP_GRO); on the wire they are datagrams of 48 bytes.
"""
import array
import fcntl
import json
import os
import signal
import socket
import struct
import sys

import netlab
import pm
from lib.harness import case, listening_ports, main
from net_rsockd import SERVICE, asking, serving
from netlab import PM_PORT, Lab

MANY = 64
ALL = 3  # ETH_P_ALL
OUTGOING = 4  # PACKET_OUTGOING
SOL_UDP, UDP_SEGMENT = 17, 103
SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17


def listen_to(host, interface):
    with host.inside():
        frames = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ALL))
    frames.bind((interface, ALL))
    frames.setblocking(False)
    return frames


def compute_checksums(host):
    """Makes the kernel compute checksums, not the device: packets on the wire are complete."""
    value = array.array("I", [ETHTOOL_STXCSUM, 0])
    with host.inside(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCETHTOOL, struct.pack("16sP", b"lan", value.buffer_info()[0]))


def datagrams(frames, column):
    """Datagrams to (column 1) or from (0) the PMSP that were seen: payload, and whether the
    checksum is right.
    """
    seen = []
    while True:
        try:
            packet, address = frames.recvfrom(65536)
        except BlockingIOError:
            return seen
        if packet[0] != 0x45 or packet[9] != socket.IPPROTO_UDP or address[2] == OUTGOING:
            continue
        datagram = packet[20:struct.unpack(">H", packet[2:4])[0]]
        if struct.unpack(">HH", datagram[:4])[column] == PM_PORT:
            pseudo = packet[12:20] + struct.pack(">HH", socket.IPPROTO_UDP, len(datagram))
            total = sum(struct.unpack(f">{(len(pseudo) + len(datagram)) // 2}H", pseudo + datagram))
            seen.append((datagram[8:], total % 0xffff == 0))


def burst(t, host, interface, client, segments=False):
    """Sends many requests while the daemon is stopped, so that they are there together; each is
    answered by 48 bytes.
    """
    frames = listen_to(host, interface)
    handles = [client.handle() for _ in range(MANY)]
    messages = [pm.message(pm.REQ, host.ip, SERVICE, client.cp, number + 1, handle)
                for number, handle in enumerate(handles)]
    came = []

    def arrived():
        came.extend(payload for payload, _ in datagrams(frames, 1))
        return sum(map(len, came)) >= MANY * 48
    host.daemon.popen.send_signal(signal.SIGSTOP)
    if segments:
        client.socket.sendmsg([b"".join(messages)],
                              [(SOL_UDP, UDP_SEGMENT, struct.pack("=H", len(messages[0])))], 0,
                              client.to)
    else:
        for message in messages:
            client.socket.sendto(message, client.to)
    t.until(arrived, 20, "the requests to be there")
    t.equal(len(came), 1 if segments else MANY, "requests, as they came in")
    host.daemon.popen.send_signal(signal.SIGCONT)
    heard = set()
    while heard != set(handles):
        answer = client.hear()
        t.check(answer, f"only {len(heard)} of {MANY} were answered")
        t.equal((answer["op"], answer["bytes"]), (pm.ACCEPT, 48), answer)
        heard.add(answer["handle"])


@case(timeout=60)
def on_the_wire_they_are_datagrams(t):
    a, b = Lab(t, 2).hosts
    b.start(**serving(b))
    compute_checksums(b)
    frames = listen_to(a, "lan")
    burst(t, b, "lan", pm.Client(a, b.ip))
    seen = datagrams(frames, 0)
    t.check(len(seen) >= MANY, f"{len(seen)} answers on the wire")
    t.equal({(len(payload), right) for payload, right in seen}, {(48, True)},
            "lengths, and checksums that are right")


@case(timeout=60)
def one_buffer_through_the_kernel(t):
    """On the host itself a buffer is not split before it reaches the receiver's socket: there it
    can be seen that it is one.
    """
    (b,) = Lab(t, 1).hosts
    b.start(**serving(b))
    for segments in (False, True):
        frames = listen_to(b, "lo")
        burst(t, b, "lo", pm.Client(b, b.ip), segments)
        lengths = {len(payload) for payload, _ in datagrams(frames, 0)}
        t.check(MANY * 48 in lengths, f"lengths on loopback: {lengths}")
    t.equal(b.counts()["malformed"], 0, "malformed datagrams")


@case(timeout=60)
def over_ipv6(t):
    a, b = Lab(t, 2).hosts
    b.start(**serving(b))
    client = pm.Client(a, b.ip6, six=True)
    for number in range(MANY):
        client.send(pm.REQ, b.ip6, SERVICE, number + 1, client.handle())
    t.equal({client.hear()["op"] for _ in range(MANY)}, {pm.ACCEPT}, "answers")


@case(timeout=60)
def the_kernel_will_not_cut_them_up(t):
    """As behind IPsec, where the kernel refuses to split: each answer is sent by itself then."""
    a, b = Lab(t, 2).hosts
    netlab.UNDER[:] = ["strace", "-D", "-qq", "-o", "/dev/null", "-e", "inject=sendmmsg:error=EIO"]
    b.start(**serving(b))
    burst(t, b, "lan", pm.Client(a, b.ip))
    t.equal(b.counts()["accepts"], MANY, "PMAccept, as the machine counts them")


@case(timeout=120)
def many_hosts_and_busy_ones(t):
    """The benchmarks' load: every request is answered once and acknowledged once."""
    (b,) = Lab(t, 1).hosts
    b.start(**serving(b, pmsp={"rate": "0"}))
    expected = 0
    for options in (["--hosts", "100"], ["--segments"], ["--sources", "5"], []):
        load = json.loads(t.wait_out(b.run([os.path.join(t.bin, "pmload"), "--requests", "5000",
                                            *options, "--ap", b.ip,
                                            "127.0.0.1", "3935", str(SERVICE)])))
        expected += 5000
        t.equal((load["accepts"], load["lost"]), (5000, 0), f"{options}: {load}")
        t.until(lambda: b.counts()["acks"] == expected, 10, "the PMAck")
    t.equal((b.counts()["requests"], b.counts()["malformed"], b.counts()["strays"]),
            (expected, 0, 0), "counted")


@case(timeout=60)
def connections_with_a_mapping(t):
    """The benchmarks' connections: plain, with a mapping beside it, and with a mapping that is
    waited for.
    """
    a, b = Lab(t, 2).hosts
    a.start(**asking(a))
    b.start(**serving(b, services=[{"name": "lasting", "ports": [str(SERVICE)],
                                    "rdma-port": "18000", "pm-time": "254s"}]))
    acceptor = b.run([os.path.join(t.bin, "pmconnect"), "serve", b.ip, str(SERVICE)])
    with b.inside():
        t.until(lambda: SERVICE in listening_ports(), 10, "the acceptor to listen")
    took = json.loads(t.wait_out(a.run([os.path.join(t.bin, "pmconnect"), "20", a.control, b.ip,
                                        str(SERVICE)])))
    t.equal({turn: len(figures) for turn, figures in took.items()},
            dict.fromkeys(("plain", "beside", "first", "remembered"), 20), "figures")
    counts = b.counts()
    t.equal(counts["requests"] - counts["duplicates"], 2 * 21 + 1,
            "PMReq: not for plain connections, once for remembered ones")
    t.stop(acceptor)


if __name__ == "__main__":
    sys.exit(main())
