#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The Wireshark dissector: messages of our own codec, malformed ones, and transactions, as tshark
reads them.
"""
import os
import random
import tempfile
import unittest
from pathlib import Path

from capture import LUA, Codec, dissect, icmp_unreachable, our_fields, tshark, udp_packet

PORT = 3935
CP, AP, RDMA = "10.1.2.3", "10.1.2.4", "10.9.9.9"
CP6, AP6, LINK6 = "2001:db8::1", "2001:db8::2", "fd00::7"
REQ, ACCEPT, ACK, DENY = range(4)
H1, H2 = 0x0123456789ABCDEF, 0xFFEEDDCCBBAA9988
SEEN = set()  # fields of which some test has seen a value
TOTAL = "test_zz_every_field_was_seen"


def setUpModule():
    global codec, FIELDS
    codec = Codec()
    FIELDS = our_fields()


def tearDownModule():
    codec.close()


def there(data, src=CP, dst=AP):
    return udp_packet(src, 40001, dst, PORT, data)


def back(data, src=AP, dst=CP):
    return udp_packet(src, PORT, dst, 40001, data)


def read(packets, *args, **how):
    """A dict for each packet, names without the prefix; single values, except for the set of expert
    names.
    """
    rows = []
    wanted = [*FIELDS, "_ws.expert.severity", "_ws.col.Protocol", "_ws.col.Info"]
    for layers in dissect(packets, *args, fields=wanted, **how):
        SEEN.update(layers)
        row = {"experts": set(),
               "severity": {int(s) for s in layers.get("_ws.expert.severity", [])}}
        for name, values in layers.items():
            short = name.removeprefix("rsockpm.")
            if short.startswith("expert."):
                row["experts"].add(short.removeprefix("expert."))
            elif not name.startswith("_ws.expert"):
                row[short] = values[0] if len(values) == 1 else values
        rows.append(row)
    return rows


def at(*packets, start=1_700_000_000_000_000, step_us=1000):
    return [(start + i * step_us, p) for i, p in enumerate(packets)]


SEVERITY_ERROR = 8 << 20  # Wireshark's PI_ERROR


def is_error(row):
    return SEVERITY_ERROR in row["severity"]


def patched(data, **at_offset):
    data = bytearray(data)
    for offset, value in at_offset.items():
        data[int(offset[1:])] = value
    return bytes(data)


class Messages(unittest.TestCase):
    def read_one(self, data, src=CP, dst=AP):
        rows = read(at(there(data, src, dst)))
        self.assertEqual(len(rows), 1)
        return rows[0]

    def expect(self, row, **values):
        for name, value in values.items():
            with self.subTest(field=name):
                self.assertEqual(row.get(name), value)

    def test_request(self):
        row = self.read_one(codec.encode(REQ, ap_port=5201, cp_port=40000, handle=H1, cp=CP, ap=AP))
        self.expect(row, version="0", op="0", ipv="4", pm_time="0", reserved="0x0000",
                    ap_port="5201", cp_port="40000",
                    assoc_handle="0x0123456789abcdef", cp_ip=CP, ap_ip=AP, upgrade="1",
                    experts=set(), cp_ip6=None,
                    mapped_cp_ip=None, spare=None, **{"_ws.col.Protocol": "RSOCK-PM"})
        self.assertEqual(row["_ws.col.Info"],
                         f"PMReq AssocHandle=0x0123456789abcdef CP={CP}:40000 AP={AP}:5201")

    def test_service_mapping(self):
        row = self.read_one(codec.encode(REQ, ap_port=80, handle=H2, cp=CP, ap=AP))
        self.expect(row, upgrade="0", cp_port="0", assoc_handle="0xffeeddccbbaa9988")

    def test_accept(self):
        row = self.read_one(codec.encode(ACCEPT, pm_time=30, ap_port=49152, handle=H1, cp=CP,
                                         ap=RDMA))
        self.expect(row, op="1", pm_time="30", ap_port="49152", ap_ip=RDMA, experts={"unasked"})

    def test_ack(self):
        row = self.read_one(codec.encode(ACK, ap_port=49152, handle=H1, cp=CP, ap=RDMA))
        self.expect(row, op="2", pm_time="0", ap_port="49152", ap_ip=RDMA, experts={"unasked"})

    def test_deny(self):
        row = self.read_one(codec.encode(DENY, ap_port=5201, handle=H1, cp=CP, ap=AP))
        self.expect(row, op="3", ap_port="5201", ap_ip=AP, experts={"deny", "unasked"})

    def test_mapped_request(self):
        data = codec.encode(REQ, ap_port=5201, cp_port=40000, handle=H1, cp=CP, ap=AP,
                            mapped=("10.5.5.5", 4660))
        self.assertEqual(len(data), 64)
        self.expect(self.read_one(data), mapped_cp_ip="10.5.5.5", mapped_cp_port="4660", cp_ip=CP,
                    reserved=None,
                    experts=set(), spare=None)

    def test_ipv6(self):
        data = codec.encode(REQ, ipv=6, ap_port=80, cp_port=65535, handle=H2, cp=CP6, ap=AP6,
                            mapped=(LINK6, 1))
        row = self.read_one(data, CP6, AP6)
        self.expect(row, ipv="6", cp_ip6=CP6, ap_ip6=AP6, mapped_cp_ip6=LINK6, mapped_cp_port="1",
                    cp_ip=None,
                    experts=set())
        self.assertIn(f"CP=[{CP6}]:65535 AP=[{AP6}]:80", row["_ws.col.Info"])

    def test_what_is_ignored(self):
        req = codec.encode(REQ, ap_port=5201, handle=H1, cp=CP, ap=AP)
        deny = codec.encode(DENY, ap_port=5201, handle=H1, cp=CP, ap=AP)
        for name, data, experts in [
                ("PmTime", patched(req, o1=9), {"ignored"}),
                ("reserved", patched(req, o3=1), {"ignored"}),
                ("behind CpIPaddr", patched(req, o20=1), {"ignored"}),
                ("behind ApIPaddr", patched(req, o47=1), {"ignored"}),
                ("spare zeros", deny + bytes(40), {"deny", "unasked"}),
                ("spare bytes", deny + bytes(39) + b"x", {"deny", "unasked", "ignored"}),
                ("longer", codec.encode(REQ, ap_port=1, handle=H1, cp=CP, ap=AP, mapped=(AP, 1)) +
                 b"x", {"ignored"}),
                ("64 bytes, not mapped", req + bytes(16), {"unmapped"}),
                ("64 bytes, a port, not mapped", patched(req, o3=1) + bytes(16),
                 {"unmapped", "ignored"})]:
            with self.subTest(name):
                row = self.read_one(data)
                self.assertIsNotNone(codec.decode(data))
                self.assertEqual(row["experts"], experts)
                self.assertFalse(is_error(row))

    def test_malformed(self):
        req = codec.encode(REQ, ap_port=5201, handle=H1, cp=CP, ap=AP)
        accept = codec.encode(ACCEPT, ap_port=49152, handle=H1, cp=CP, ap=AP)
        no_handle = req[:8] + bytes(8) + req[16:]
        cases = [
                ("one byte", req[:1], {"length"}),
                ("47 bytes", req[:47], {"length"}),
                ("between", req + bytes(15), {"length"}),
                ("version", patched(req, o0=0x44), {"version"}),
                ("short, and of another version", patched(req[:9], o0=0xC4), {"length", "version"}),
                ("IPV 5", patched(req, o0=0x05), {"ipv"}),
                ("IPV 0", patched(req, o0=0x00), {"ipv"}),
                ("AssocHandle", no_handle, {"assoc_handle"}),
                ("ApPort", patched(req, o4=0, o5=0), {"ap_port"}),
                ("both", patched(no_handle, o4=0, o5=0), {"assoc_handle", "ap_port"}),
                ("PMAccept without an address", accept[:32] + bytes(16), {"ap_ip"})]
        rows = read(at(*(there(data) for _, data, _ in cases)))
        self.assertEqual(len(rows), len(cases))
        for (name, data, experts), row in zip(cases, rows):
            with self.subTest(name):
                self.assertIsNone(codec.decode(data))
                self.assertEqual(row["experts"], experts)
                self.assertTrue(is_error(row))
                self.assertIn("(malformed)", row["_ws.col.Info"])

    def test_an_empty_datagram_is_no_message(self):
        row = self.read_one(b"")
        self.assertIsNone(row.get("op"))
        self.assertEqual(row["_ws.col.Protocol"], "UDP")

    def agree(self, datagrams):
        """tshark must report an error exactly where the codec refuses, and otherwise the codec's
        values.
        """
        rows = read(at(*(there(d) for d in datagrams)))
        self.assertEqual(len(rows), len(datagrams))
        refused = 0
        for data, row in zip(datagrams, rows):
            with self.subTest(data.hex()):
                words = codec.decode(data)
                self.assertEqual(is_error(row), words is None)
                if words is None:
                    refused += 1
                    continue
                six = "6" if row["ipv"] == "6" else ""
                pm_time = row["pm_time"] if row["op"] == str(ACCEPT) else "0"
                mapped = [row["mapped_cp_ip" + six],
                          row["mapped_cp_port"]] if "mapped_cp_port" in row else []
                self.assertEqual([row["op"], row["ipv"], pm_time, row["ap_port"], row["cp_port"],
                                  str(int(row["assoc_handle"], 16)), row["cp_ip" + six],
                                  row["ap_ip" + six], *mapped],
                                 words)
        return refused

    def test_the_fuzz_corpus(self):
        corpus = [p.read_bytes() for p in sorted(Path(os.environ["RSOCK_CORPUS"]).iterdir())]
        corpus = [d for d in corpus if d]
        self.assertGreater(len(corpus), 10)
        self.assertGreater(self.agree(corpus), 2)

    def test_random_datagrams(self):
        rng = random.Random(3935)
        datagrams = []
        for _ in range(3000):
            size = rng.choice([48, 48, 64, 64, 64, rng.randrange(1, 200)])
            data = bytearray(rng.randbytes(size))
            # Mostly version 0 and a known IPV, and fields that are zero often enough to matter.
            if rng.random() < 0.9:
                data[0] = rng.randrange(4) << 4 | rng.choice([4, 6])
            for first, end in [(1, 2), (2, 4), (4, 6), (6, 8), (8, 16), (16, 32), (20, 32),
                               (32, 48), (36, 48), (48, 64),
                               (52, 64)]:
                if rng.random() < 0.15:
                    data[first:end] = bytes(max(0, min(end, size) - first))
            datagrams.append(bytes(data))
        refused = self.agree(datagrams)
        self.assertGreater(refused, 300)
        self.assertGreater(len(datagrams) - refused, 1000)


class Transactions(unittest.TestCase):
    def setUp(self):
        self.id = {"handle": H1, "cp_port": 40000, "cp": CP}
        self.req = codec.encode(REQ, ap_port=5201, ap=AP, **self.id)
        self.accept = codec.encode(ACCEPT, pm_time=30, ap_port=49152, ap=RDMA, **self.id)
        self.ack = codec.encode(ACK, ap_port=49152, ap=RDMA, **self.id)
        self.deny = codec.encode(DENY, ap_port=5201, ap=AP, **self.id)

    def columns(self, rows, *names):
        return [tuple(row.get(n) for n in names) for row in rows]

    def test_accepted(self):
        rows = read(at(there(self.req), back(self.accept), there(self.ack), step_us=1500))
        self.assertEqual(self.columns(rows, "response_in", "response_to", "time", "ack_in",
                                      "ack_to", "ack_time"), [
            ("2", None, None, None, None, None),
            (None, "1", "0.001500000", "3", None, None),
            (None, None, None, None, "2", "0.001500000")])
        self.assertEqual([r["experts"] for r in rows], [set(), set(), set()])

    def test_denied(self):
        rows = read(at(there(self.req), back(self.deny), step_us=2_000_000))
        self.assertEqual(self.columns(rows, "response_in", "response_to", "time"), [
            ("2", None, None), (None, "1", "2.000000000")])
        self.assertEqual(rows[1]["experts"], {"deny"})

    def test_answered_by_another_host(self):
        """A redirected request: only the transaction's name shows what belongs together."""
        rows = read(at(there(self.req), back(self.accept, src="10.7.7.7"),
                       there(self.ack, dst="10.7.7.7")))
        self.assertEqual(self.columns(rows, "response_in", "response_to", "ack_to"), [
            ("2", None, None), (None, "1", None), (None, None, "2")])

    def test_retransmissions(self):
        rows = read(at(there(self.req), there(self.req), back(self.accept), back(self.accept),
                       there(self.ack),
                       there(self.ack)))
        self.assertEqual(self.columns(rows, "duplicate_of", "response_in", "response_to", "time",
                                      "ack_to"), [
            (None, "3", None, None, None), ("1", "3", None, None, None),
            (None, None, "1", "0.002000000", None), ("3", None, "1", "0.003000000", None),
            (None, None, None, None, "3"), ("5", None, None, None, "3")])
        self.assertEqual([r["experts"] for r in rows], [set(), {"duplicate"}] * 3)

    def test_changed_answers(self):
        moved = codec.encode(ACCEPT, pm_time=30, ap_port=49153, ap=RDMA, **self.id)
        rows = read(at(there(self.req), back(self.accept), back(moved), back(self.deny)))
        self.assertEqual([r["experts"] for r in rows],
                         [set(), set(), {"changed"}, {"deny", "second_answer"}])
        self.assertEqual(rows[0]["response_in"], "2")

    def test_what_is_ignored_changes_nothing(self):
        rows = read(at(there(self.req), there(patched(self.req, o1=7, o3=9, o31=1))))
        self.assertEqual(rows[1]["experts"], {"duplicate", "ignored"})

    def test_ack_that_differs(self):
        wrong = codec.encode(ACK, ap_port=5201, ap=AP, **self.id)
        rows = read(at(there(self.req), back(self.accept), there(wrong)))
        self.assertEqual(rows[2]["experts"], {"ack_differs"})

    def test_names_apart(self):
        """Another AssocHandle, CpPort, CpIPaddr or IP version is another transaction, even if the
        rest is equal.
        """
        for change in [{"handle": H2}, {"cp_port": 40001}, {"cp": "10.1.2.99"}]:
            with self.subTest(**change):
                other = codec.encode(ACCEPT, ap_port=1, ap=AP, **{**self.id, **change})
                rows = read(at(there(self.req), back(other)))
                self.assertEqual(self.columns(rows, "response_in", "response_to"),
                                 [(None, None)] * 2)
                self.assertEqual(rows[1]["experts"], {"unasked"})
        as_six = codec.encode(ACCEPT, ipv=6, ap_port=1, ap=AP6, handle=H1, cp_port=40000,
                              cp="a01:203::")
        self.assertEqual(as_six[16:32], self.req[16:32])
        rows = read(at(there(self.req), back(as_six)))
        self.assertEqual(rows[1]["experts"], {"unasked"})

    def test_malformed_answers_match_nothing(self):
        nowhere = self.accept[:32] + bytes(16)
        rows = read(at(there(self.req), back(nowhere), back(self.accept)))
        self.assertEqual(self.columns(rows, "response_in", "response_to"),
                         [("3", None), (None, None), (None, "1")])
        self.assertEqual(rows[2]["experts"], set())

    def test_quoted_by_icmp(self):
        """A port without a listener: the message that the ICMP error quotes was sent once, not
        twice.
        """
        packet = there(self.req)
        rows = read(at(packet, icmp_unreachable(AP, CP, packet), there(self.req)))
        self.assertEqual(rows[1]["op"], "0")
        self.assertEqual(rows[1]["experts"], set())
        self.assertEqual(rows[2]["duplicate_of"], "1")

    def test_display_filters(self):
        packets = at(there(self.req), back(self.accept), there(self.ack), back(self.deny))
        for wanted, count in [("rsockpm", 4), ("rsockpm.op == 1", 1), ('rsockpm.op == "PMDeny"', 1),
                              (f"rsockpm.cp_ip == {CP}", 4), ("rsockpm.ap_ip == 10.9.0.0/16", 2),
                              (f"rsockpm.assoc_handle == {H1:#x}", 4), ("rsockpm.time > 0.0005", 2),
                              ("rsockpm.expert.second_answer", 1), ("rsockpm.upgrade == 0", 0)]:
            with self.subTest(wanted):
                self.assertEqual(len(read(packets, "-Y", wanted)), count)

    def test_filters_of_the_documentation(self):
        doc = Path(LUA).parents[2] / "docs/wireshark.md"
        filters = [line.split("`")[1] for line in doc.read_text(encoding="utf-8").splitlines()
                   if line.startswith("| `")]
        self.assertGreater(len(filters), 6)
        request = at(there(self.req))
        self.assertEqual(len(read(request, "-Y", " || ".join(f"({f})" for f in filters))), 1)
        self.assertEqual(len(read(request, "-Y", filters[1])), 1)


class Setup(unittest.TestCase):
    def test_another_port(self):
        data = codec.encode(REQ, ap_port=5201, handle=H1, cp=CP, ap=AP)
        packets = at(udp_packet(CP, 40001, AP, 13935, data), there(data))
        self.assertEqual([r.get("op") for r in read(packets)], [None, "0"])
        self.assertEqual([r.get("op") for r in read(packets, "-o", "rsockpm.ports:13935")],
                         ["0", None])
        self.assertEqual([r.get("op") for r in read(packets, "-o",
                                                    "rsockpm.ports:3935,13000-14000")], ["0", "0"])
        self.assertEqual([r.get("op") for r in read(packets, "-d", "udp.port==13935,rsockpm")],
                         ["0", "0"])

    def test_linked_as_documented(self):
        with tempfile.TemporaryDirectory() as home:
            plugins = Path(home, ".local/lib/wireshark/plugins")
            plugins.mkdir(parents=True)
            Path(plugins, "rsock_pm.lua").symlink_to(LUA)
            self.assertIn("rsockpm.op", tshark("-G", "fields", script=False, home=home))
            data = codec.encode(REQ, ap_port=5201, handle=H1, cp=CP, ap=AP)
            self.assertEqual(read(at(there(data)), script=False, home=home)[0]["op"], "0")


class Whole(unittest.TestCase):
    def test_zz_every_field_was_seen(self):
        self.assertGreater(len(FIELDS), 30)
        self.assertEqual(set(FIELDS) - SEEN, set())


if __name__ == "__main__":
    unittest.main()
