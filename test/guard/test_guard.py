#!/usr/bin/python3 -B
"""Tests guard.py: it reads dumps correctly, and notices what it must notice. Run by ctest."""
import json
import unittest

import guard

DUMP = """# callgrind format
version: 1
part: 2
desc: I1 cache:
desc: Timerange: Basic block 1 - 2
desc: Trigger: Client Request: {what}
positions: line
event: sysTime : sysTime (elapsed ms)
events: Ir sysCount sysTime
summary: {summary}
"""
OUTPUT = "row\tnothing\t10\t0\t4\nrow\tsend\t10\t20\t4\nbytes\t600\t400\n"


def dump(what, summary):
    return DUMP.format(what=what, summary=summary)


def stream(**other):
    record = {"reason": "direct", "demotions": 0, "tx": "ring", "rx": "ring", "tx_ring_bytes": 590,
              "rx_ring_bytes": 390,
              "tx_tcp_bytes": 10, "rx_tcp_bytes": 10}
    return record | other


def run(streams, sent=600, received=400):
    return guard.Run({}, sent, received, json.dumps({"streams": streams}) + "\n")


class Reading(unittest.TestCase):
    dumps = [dump("instructions\tnothing", "50"), dump("syscalls\tnothing", "9"),
             dump("instructions\tsend", "9050 3 1"), dump("syscalls\tsend", "3000 3"),
             dump("syscalls\tsend", "3000 1 7"),
             "desc: Trigger: Program termination\nevents: Ir\nsummary: 7\n"]

    def test_counts_per_call(self):
        rows = guard.read_run(OUTPUT, self.dumps).rows
        self.assertEqual(rows["send"], {"instructions": 905, "syscalls": 1, "clock": 2})
        self.assertEqual(rows["nothing"], {"instructions": 5, "syscalls": 0, "clock": 0})

    def test_a_row_without_its_dump_is_no_count(self):
        with self.assertRaises(guard.Failed):
            guard.read_run(OUTPUT, self.dumps[:3])

    def test_a_run_without_an_end_is_none(self):
        with self.assertRaises(guard.Failed):
            guard.read_run(OUTPUT.replace("bytes\t600\t400\n", ""), self.dumps)

    def test_direct_is_all_but_the_loop_others_what_is_added(self):
        preloaded = guard.read_run(OUTPUT, self.dumps)
        plain = guard.read_run(OUTPUT, [text.replace("9050", "150") for text in self.dumps])
        self.assertEqual(guard.own_counts("direct", preloaded, plain)["send"]["instructions"], 900)
        self.assertEqual(guard.own_counts("new", preloaded, plain)["send"]["instructions"], 890)


class States(unittest.TestCase):
    def test_as_wanted(self):
        guard.check_state("direct", run([stream()] * 2))
        plain = {"reason": "no-peer", "tx": "tcp", "rx": "tcp", "tx_ring_bytes": 0,
                 "rx_ring_bytes": 0}
        guard.check_state("lookup", run([stream(**plain, tx_tcp_bytes=600, rx_tcp_bytes=400)]))
        guard.check_state("given-up", run([stream(**plain, tx_tcp_bytes=60, rx_tcp_bytes=40)]))

    def test_not_as_wanted(self):
        tcp = stream(tx_ring_bytes=0, rx_ring_bytes=0, tx_tcp_bytes=600, rx_tcp_bytes=400)
        for state, streams in (("direct", []), ("direct", [stream()]),
                               ("direct", [stream(), stream(tx="tcp")]),
                               ("direct", [stream(), stream(reason="no-peer")]),
                               ("direct", [tcp, tcp]),
                               ("direct", [stream(), stream(demotions=1)]),
                               ("new", [stream(reason="not-earned")] * 2),
                               ("direct", [stream(), stream(tx_tcp_bytes=11)]),
                               ("given-up",
                                [tcp | {"reason": "no-peer", "tx": "tcp", "rx": "tcp"}])):
            with self.subTest(state=state, streams=streams), self.assertRaises(guard.NotSo):
                guard.check_state(state, run(streams))


class Verdicts(unittest.TestCase):
    counted = {"instructions": 900.5, "syscalls": 0.0625, "clock": 0}

    def wrong(self, **other):
        return guard.verdict(self.counted | other, guard.bound_for(self.counted))

    def test_what_was_counted_is_within_its_bound(self):
        for n in (0, 0.3, 1, 5, 34, 900):
            counted = {"instructions": n, "syscalls": n, "clock": n}
            self.assertEqual(guard.verdict(counted, guard.bound_for(counted)), "")

    def test_more(self):
        self.assertIn("1000.00 instructions", self.wrong(instructions=1000))
        self.assertIn("syscalls", self.wrong(syscalls=0.125))
        self.assertIn("clock", self.wrong(clock=0.01))

    def test_far_less_asks_for_a_lower_bound(self):
        self.assertEqual(self.wrong(instructions=600), "")
        self.assertIn("lower the bound", self.wrong(instructions=400))
        self.assertIn("lower the bound", self.wrong(syscalls=0))

    def test_rows_and_bounds_belong_together(self):
        counted, bounds = ({"direct": {"send": self.counted}},
                           {"direct": {"send": guard.bound_for(self.counted)}})
        self.assertEqual(guard.judge(counted, bounds), {})
        self.assertEqual(guard.judge(counted, {}), {("direct", "send"): "no bound"})
        self.assertEqual(guard.judge({}, bounds), {("direct", "send"): "not counted"})


if __name__ == "__main__":
    unittest.main()
