#!/usr/bin/env python3
"""Tests of cluster.py with a few agents and an etcd of three nodes: that each part of it ends, and
what has to be linear in the number of hosts: docs/scale.md relies on that.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import cluster

AGENTS, OFFERED, OWNERS, HOLDERS = 8, 2, 2, 3


def measured(folder):
    path = pathlib.Path(folder) / "cluster.json"
    subprocess.run([sys.executable, "-B", cluster.__file__, "--agents", str(AGENTS), "--steps", "4",
                    "--services", str(OFFERED), "--pushes", "2", "--rest", "4", "--looks", "10",
                    "--owners", str(OWNERS), "--holders", str(HOLDERS), "--rate", "60",
                    "--json", str(path)], check=True, timeout=220)
    return json.loads(path.read_text())


class Cluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            cls.figures = measured(folder)

    def test_start(self):
        """One entry for each agent, and none about services that it does not offer, nor about
        RNICs without a limit. An offer may be written a moment after the others are in sync.
        """
        first, then = (f["puts"] for f in self.figures["start"].values())
        self.assertIn(first, range(4, 4 + OWNERS + 1))
        self.assertEqual(then, AGENTS - 4)

    def test_rest(self):
        for figures in self.figures["rest"].values():
            self.assertEqual((figures["puts"], figures["proposals"]), (0, 0))
            self.assertGreater(figures["requests"], 0)
        # The document, services, roles, offers of RNICs, quotas of the own RNICs.
        self.assertEqual(sum(node["watches"] for node in figures["nodes"]), 5 * AGENTS)

    def test_push(self):
        """The document, its history from the second one on, and each agent's entry."""
        self.assertEqual([f["puts"] for f in self.figures["push"]], [1 + AGENTS, 2 + AGENTS])
        self.assertEqual(self.figures["list"]["members"], AGENTS)

    def test_decisions(self):
        decided = self.figures["decisions"]
        self.assertGreaterEqual(decided["accepts"], 0.9 * cluster.ASKED * cluster.DECISIONS)
        self.assertEqual(decided["puts_per_1000"], 0)

    def test_ledger(self):
        """No session waits for etcd. All hear of each offer, once; a quota serves many sessions."""
        f = self.figures["ledger"]
        self.assertEqual(set(f["outcomes"]), {"mapped"})
        self.assertGreater(f["covered"], 4 * f["asked"])
        self.assertGreater(f["held"]["sessions"], 0)
        self.assertLessEqual(f["held"]["most"], 1000)
        self.assertGreater(f["offers"], 0)
        self.assertEqual(f["events"], f["offers"] * AGENTS)
        self.assertLess(f["puts_per_1000"], 500)

    def test_services(self):
        """All hear of each, once."""
        for figures in self.figures["services"]:
            self.assertEqual(figures["puts"], figures["offered"])
            self.assertEqual(figures["events"], figures["offered"] * AGENTS)

    def test_failures(self):
        back, leader = self.figures["return"], self.figures["leader"]
        self.assertEqual(leader["lapses"], 0)
        self.assertEqual(leader["least_members"], AGENTS)
        # A lease, an entry, a document, its watch, the services, their watch; some of them twice.
        self.assertLess(back["requests"], 20 * AGENTS)


class Figures(unittest.TestCase):
    def test_between(self):
        """What all nodes do counts once."""
        before = [{"cpu_s": 1, "requests": 10, "sent_bytes": 0, "disk_bytes": 0, "proposals": 5,
                   "puts": 5}] * 2
        after = [{"cpu_s": 2, "requests": 30, "sent_bytes": 4, "disk_bytes": 8, "proposals": 9,
                  "puts": 8},
                 {"cpu_s": 3, "requests": 10, "sent_bytes": 0, "disk_bytes": 8, "proposals": 8,
                  "puts": 8}]
        self.assertEqual(cluster.between(before, after, 2),
                         {"cpu_s": 1.5, "requests": 10, "sent_bytes": 2, "disk_bytes": 8,
                          "proposals": 2, "puts": 1.5})

    def test_percentiles(self):
        self.assertEqual(cluster.percentiles(range(1001, 0, -1)),
                         {"median": 501, "p99": 991, "last": 1001})


if __name__ == "__main__":
    unittest.main()
