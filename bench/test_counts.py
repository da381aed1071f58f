#!/usr/bin/env python3
"""Tests of rdma_counts.py without guests: what callgrind has written, and the table."""
import unittest

import rdma_counts
from lib import callgrind
from rdma_stage import RSOCK, RSOCKET

TEXT = """version: 1
events: Ir sysCount sysTime
fl=(1) a.c
fn=(1) main
1 10
cfn=(2) send
calls=4 +2
* 400 3 9
+1 5
cfi=(2) clock.c
cfn=(3) clock_gettime@@GLIBC_2.17
calls=4 7
+1 80 4 4
fn=(2)
8 0 5
9 100
cfn=(4) write
calls=3 1
+2 300 3 9
fn=(3)
-3 80 9
fn=(4)
5 300 7 9
"""


class CountTests(unittest.TestCase):
    def test_profile(self):
        profile = callgrind.Profile(TEXT)
        self.assertEqual(profile.instructions, 10 + 5 + 100 + 80 + 300)
        self.assertEqual(profile.calls["send"], 4)
        self.assertEqual(profile.system_calls, 3, "neither the clock nor what was before --zero")

    def test_table(self):
        counted = {"messages": 100, "instructions": 6358.6, "system calls": 4.02}
        lines = rdma_counts.markdown([
            ("a", RSOCKET, counted), ("a", RSOCK, {**counted, "writes": 1.06, "inlined": 0})])
        self.assertIn("| a | rsocket | 6,359 | 4.02 |  |", lines[-2])
        self.assertIn("| a | rsock | 6,359 | 4.02 | 1.06 | 0 |", lines[-1])


if __name__ == "__main__":
    unittest.main()
