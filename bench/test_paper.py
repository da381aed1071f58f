#!/usr/bin/env python3
"""Tests of paper_report.py without guests: figures, tables, plots."""
import json
import pathlib
import tempfile
import types
import unittest

import paper_report
import rdma_paper
from rdma_paper import POINTS, Point


def transfer(method, ns, **more):
    return {"method": method, "ns": ns, "first_ns": 1, "requests": 1, "invalid": 0,
            "indirect_bytes": 0, "cpu_ns": 1000,
            "peer_cpu_ns": 2000, **more}


def run_of(*pairs):
    return [transfer(method, ns) for pair in pairs for method, ns in zip("td", pair)]


def result_of(points, runs, errors=()):
    cells = rdma_paper.cells_of(points, {})
    for point in points:
        cells[point.key].update(transfers=runs, errors=list(errors))
    about = {"rounds": len(runs), "seconds": 1, "bytes": 131072, "methods": "td", "kernel": "6.12",
             "lossy": "all", "minutes": 1}
    return paper_report.result(points, cells, about)


class Program:
    """A started program of a guest, which ends at once."""

    def __init__(self, guest, argv):
        self.guest, self.argv, self.killed = guest, argv, False

    def wait(self, *_):
        pass

    def running(self):
        return False

    def kill(self):
        self.killed = True

    def out(self):
        return json.dumps({"of": self.guest}) + "\n" + json.dumps({"end": self.guest}) + "\n"


class Guest:
    """Records what is started in it, and which loss was set at that time."""

    def __init__(self, number):
        self.number, self.ip = number, f"10.0.0.{number}"
        self.loss, self.started = None, []

    def netem(self, what, **_):
        self.loss = what

    def start(self, argv, env=None):  # pylint: disable=unused-argument
        program = Program(self.number, [str(word) for word in argv])
        self.started.append((program, self.loss))
        return program

    def listening(self, *_, **__):
        pass


class Lab:
    def __init__(self):
        self.guests = [Guest(1), Guest(2)]

    def __getitem__(self, number):
        return self.guests[number - 1]


class RunTests(unittest.TestCase):
    """What rdma_paper.py runs for a point, with guests that are none."""

    @staticmethod
    def run_of(point):
        lab = Lab()
        args = types.SimpleNamespace(lossy=None, transfers=800, seconds=1, bytes=131072,
                                     methods="tda")
        return lab.guests, rdma_paper.run(lab, point, args, 0)

    def test_figures_4_to_6_have_points_of_each_percentage(self):
        def percents(sweep):
            return sorted((p.fail, p.loss) for p in POINTS if p.sweep == sweep)
        self.assertEqual(percents("fail"), [(n, 0) for n in (1, 5, 10)])
        self.assertEqual(percents("loss"), [(0, n) for n in (1, 5, 10)])
        self.assertEqual(percents("both"), [(n, n) for n in (1, 5, 10)])

    def test_a_point_sets_failures_and_loss_for_both_methods(self):
        guests, (transfers, client, server) = self.run_of(Point("both", fail=5, loss=10))
        for guest in guests:
            self.assertEqual([loss for _, loss in guest.started], ["loss 10%"])
            self.assertIsNone(guest.loss)  # afterwards
        argv = guests[0].started[0][0].argv
        self.assertTrue({"mode=transfer", "methods=tda", "fail=5", "rounds=800", "bytes=131072",
                         "largest=1024"} <= set(argv))
        self.assertEqual((transfers, client, server), ([{"of": 1}], {"end": 1}, {"end": 2}))

    def test_pings_run_beside_frames_of_a_size(self):
        guests, _ = self.run_of(Point("frames", fail=10, slot=512, beside=True))
        pings = [program for program, _ in guests[0].started if program.argv[0] == "ping"]
        self.assertEqual([ping.argv[4] for ping in pings], ["-s"] * 3)
        self.assertEqual([ping.argv[5] for ping in pings], ["256", "512", "1024"])
        self.assertTrue(all(ping.killed for ping in pings))
        self.assertIn("largest=512", guests[0].started[-1][0].argv)


class FigureTests(unittest.TestCase):
    def test_change_of_means(self):
        runs = [run_of((10, 9), (30, 11)), run_of((20, 10))]
        found = paper_report.pairs(runs, "d")
        self.assertEqual(found, [(10, 9), (30, 11), (20, 10)])
        self.assertEqual(paper_report.change(found), -50)
        low, high = paper_report.interval(found)
        self.assertTrue(low <= -50 <= high)

    def test_all_alike_have_no_interval(self):
        low, high = paper_report.interval([(10, 9)] * 20)
        self.assertAlmostEqual(low, -10)
        self.assertAlmostEqual(high, -10)

    def test_of_a_method(self):
        runs = [[transfer("t", 10), transfer("d", 5, requests=2, invalid=1, indirect_bytes=64)],
                run_of((30, 7))]
        of = paper_report.of_method(runs, "d")
        self.assertEqual((of["mean_ns"], of["lowest_run_ns"], of["highest_run_ns"]), (6, 5, 7))
        self.assertEqual((of["transfers"], of["repeated"], of["invalid"], of["by_indirect"]),
                         (2, 1, 1, 1))


class TableTests(unittest.TestCase):
    def test_beside_the_papers(self):
        text = "\n".join(paper_report.markdown(result_of([Point("both", fail=5, loss=5)],
                                                         [run_of((10e6, 9e6))])))
        self.assertIn("-10.0 % (-10.0 to -10.0) | -4.9 %", text)
        self.assertNotIn("failed", text)

    def test_runs_that_failed_show(self):
        for runs in ([], [run_of((10, 9))]):
            text = "\n".join(paper_report.markdown(
                result_of([Point("loss", loss=10)], runs, ["the rail broke"])))
            self.assertIn("failed**", text)
            columns = {line.count("|") for line in text.splitlines()
                       if line.startswith(("| what", "| packets")) and "timer" not in line}
            self.assertLessEqual(len(columns), 2)

    def test_plots(self):
        points = [Point("none"), Point("fail", fail=5), Point("fail", fail=10),
                  Point("frames", fail=10, slot=256, beside=True),
                  Point("frames", fail=10, slot=512, beside=True)]
        with tempfile.TemporaryDirectory() as folder:
            drawn = paper_report.draw(result_of(points, [run_of((10e6, 9e6), (11e6, 9e6))]),
                                      pathlib.Path(folder) / "p")
            self.assertEqual([path.name for path in drawn], ["p-fail.svg", "p-frames.svg"])
            self.assertIn("traditional", drawn[0].read_text())

    def test_points(self):
        self.assertEqual(len({point.key for point in POINTS}), len(POINTS))
        self.assertTrue({("both", 1), ("both", 5), ("both", 10),
                         ("frames", 256)} <= set(paper_report.PAPER))

    def test_rounds_are_added(self):
        points = [Point("none")]
        before = json.loads(json.dumps(result_of(points, [run_of((10, 9))])))
        cells = rdma_paper.cells_of(points, before)
        self.assertEqual(len(cells[points[0].key]["transfers"]), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
