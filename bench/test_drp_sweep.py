#!/usr/bin/env python3
"""Tests of drp_sweep.py: means, tables, and what docs/performance.md concludes from them."""
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import unittest

import drp
import drp_sweep
import mechanisms
from drp import DYNAMIC, TRADITIONAL, Model
from drp_sweep import AS_FITTED, FRAMES, LOSSES, Variation


def named(what):
    found = [each for each in drp_sweep.BOTH + LOSSES + FRAMES if each.what == what]
    assert len(found) == 1, what
    return found[0]


def saved(variation, count):
    """Change in percent at 10 % loss, and (quicker, slower)."""
    pairs = drp_sweep.sampled(variation, count, lost=0.1)
    return (drp_sweep.paper_report.change(pairs), sum(b < a for a, b in pairs),
            sum(b > a for a, b in pairs))


class MeanTests(unittest.TestCase):
    def test_exact_is_what_samples_come_to(self):
        for method in (TRADITIONAL, DYNAMIC):
            model = Model(method=method, fails=0.1, **mechanisms.FITTED)
            times = [each.ns for each in drp.transfers(model, 500, 1)]
            off = abs(statistics.mean(times) - drp_sweep.exact(model))
            # Three standard errors, and a microsecond for failures too rare for a sample.
            self.assertLess(off, 3 * statistics.stdev(times) / math.sqrt(len(times)) + 1000)

    def test_exact_counts_each_number_of_failures(self):
        # Traditional: each failure costs the timer, and the request, registration and answer.
        model = Model(method=TRADITIONAL, fails=0.1, **mechanisms.FITTED)
        none, one = (drp.Transfer(model, drp_sweep.Failures(count)).run().ns for count in (0, 1))
        self.assertAlmostEqual(drp_sweep.exact(model) / (none + (one - none) / 9), 1, places=6)

    def test_a_clock_that_ends_earlier(self):
        ends = [drp_sweep.sampled(Variation("", until=until), 3, lost=0)
                for until in ("ns", "acked_ns")]
        self.assertTrue(all(late > early for late, early in zip(*ends)))

    def test_frames_of_a_transfer(self):
        self.assertEqual([Variation("", frames=128).model(payload=size).bytes
                          for size in (256, 1024)], [32 << 10, 128 << 10])
        self.assertEqual(AS_FITTED.model(payload=256).bytes, 128 << 10)


class ConclusionTests(unittest.TestCase):
    def test_timeouts_decide_figure_5(self):
        found = [saved(named(what), 150)[0]
                 for what in ("sends indirectly at once", "sends indirectly at the first timeout",
                              "as fitted")]
        self.assertEqual(found, sorted(found))
        self.assertLess(found[0], -4)
        self.assertLess(found[1], -0.5)
        self.assertTrue(-1 < found[2] < 0)

    def test_loss_of_data_alone_makes_no_difference(self):
        self.assertEqual(saved(named("only data are lost"), 100), (0, 0, 0))

    def test_all_that_it_can_save_is_the_square_of_a_lost_request_or_answer(self):
        # Traditional waits for q / (1 - q) timers on average, dynamic for q + q ** 2.
        q = 1 - 0.9 ** 2
        short = {**LOSSES[-1].changed, "bytes": 1024}
        change, _quicker, slower = saved(Variation("", short, until="acked_ns"), 20_000)
        self.assertEqual(slower, 0)
        self.assertAlmostEqual(change, -100 * q ** 2, delta=1)

    def test_what_a_failure_saves_decides_figure_7(self):
        for what, gains in (("as fitted", "large"), ("bus request 8 µs", "large"),
                            ("one timer for all requests", "small"),
                            ("one timer, no limit", "small"),
                            ("registration takes 5 ms", "small"),
                            ("one timer of 0.5 ms, no limit", "large"),
                            ("one timer, no limit, last acknowledgement", "large"),
                            ("128 frames a transfer of any size", "small")):
            with self.subTest(what):
                self.assertEqual(drp_sweep.trend(drp_sweep.seven(named(what))), gains)

    def test_one_timer_saves_a_transfer_at_most(self):
        # So that 1 % of failures gain 1 % at most, where Figure 6 has 1.9 %.
        for what in ("one timer for all requests", "one timer, no limit"):
            model = named(what).model(fails=0.01)
            slow, quick = (drp_sweep.exact(drp_sweep.dataclasses.replace(model, method=method))
                           for method in (TRADITIONAL, DYNAMIC))
            self.assertTrue(-1 < (quick / slow - 1) * 100 < 0)


    def test_a_slow_registration_gains_where_nothing_fails(self):
        # More than Figure 6 has at 1 % of both.
        slow, quick = drp_sweep.sampled(drp_sweep.SLOW, 1)[0]
        self.assertLess((quick / slow - 1) * 100, 3 * mechanisms.PAPER[1])


class TableTests(unittest.TestCase):
    def test_names_are_not_twice_in_a_table(self):
        for table in (drp_sweep.BOTH + LOSSES, drp_sweep.BOTH + FRAMES, drp_sweep.SIXES):
            self.assertEqual(len({each.what for each in table}), len(table))

    def test_each_variation_varies(self):
        for each in drp_sweep.BOTH[1:] + LOSSES + FRAMES + drp_sweep.SIXES[1:]:
            with self.subTest(each.what):
                self.assertNotEqual((each.model(payload=256), each.until),
                                    (AS_FITTED.model(payload=256), "ns"))

    def test_trend(self):
        self.assertEqual([drp_sweep.trend({256: small, 512: 0, 1024: -2.0})
                          for small in (-2.1, -2.01, -1.9)], ["small", "alike", "large"])

    def test_small_percents(self):
        self.assertEqual([drp_sweep.percent_text(value) for value in (-0.3, -0.004, 0, -0.04)],
                         ["-0.3 %", "-0.00 %", "+0.0 %", "-0.04 %"])

    def test_it_says_that_its_figures_are_modelled(self):
        lines = drp_sweep.markdown({"as fitted": drp_sweep.five(AS_FITTED, 10)},
                                   {"as fitted": drp_sweep.six(AS_FITTED, 10)},
                                   {"as fitted": drp_sweep.seven(AS_FITTED)}, 30)
        titles = [line for line in lines if line.startswith("Figure")]
        self.assertEqual(len(titles), 3)
        self.assertTrue(all(", modelled" in line for line in titles))
        self.assertIn("| the paper | -1.9 % | -4.9 % | -8.8 % |", lines)
        self.assertIn("| the paper, on FPGAs | -12.0 % | -13.6 % | -9.2 % | small |", lines)

    def test_the_command_refuses_too_few(self):
        command = [sys.executable, "-B", drp_sweep.__file__, "--transfers"]
        done = subprocess.run([*command, "1"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--transfers: at least", done.stderr)

    def test_the_command_writes_its_figures(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "sweep.json"
            done = subprocess.run([sys.executable, "-B", drp_sweep.__file__, "--transfers", "3",
                                   "--json", path], capture_output=True, text=True, check=True)
            found = json.loads(path.read_text())
        self.assertEqual(set(found["figure_7"]), {each.what for each in drp_sweep.BOTH + FRAMES})
        self.assertIn("| one timer, no limit |", done.stdout)


if __name__ == "__main__":
    unittest.main()
