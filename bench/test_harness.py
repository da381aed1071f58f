#!/usr/bin/env python3
"""Tests of the comparisons' evaluation: what counts as direct, what as gain, and that no process
outlives its stage."""
import json
import os
import pathlib
import tempfile
import time
import unittest

import compare
import gains
import plots
import report
import rows_programs
import rows_rsperf
import stages
from rows import RUNS
from stages import LIMIT, ONE_SIDE, SLEEP, SPIN, TCP, UNIX, Failure, Stage
from table import (CostTarget, Row, Run, Table, cost_verdict, faster, figure_at_least,
                   figure_at_most, near_limit,
                   verdict)


def stream(port, ring, tcp, reason="direct", peer="127.0.0.1"):
    return {"peer": f"{peer}:{port}", "tx_ring_bytes": ring, "rx_ring_bytes": 0,
            "tx_tcp_bytes": tcp,
            "rx_tcp_bytes": 0, "demotions": 0, "reason": reason}


class TravelTests(unittest.TestCase):
    def travel(self, *lines):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "stat"
            if lines:
                path.write_text("".join(json.dumps({"streams": streams}) + "\n"
                                        for streams in lines))
            return stages.read_travel(path, 5201)

    def test_no_statistics_is_not_direct(self):
        travel = self.travel()
        self.assertEqual(travel.verdict(), "unknown")
        self.assertIn("unknown", travel.text())

    def test_silent_tcp_says_so(self):
        travel = self.travel([stream(5201, 0, 10**9, "peer-absent")])
        self.assertEqual(travel.verdict(), "TCP")
        self.assertIn("stayed on TCP, direct 0/1", travel.text())
        self.assertIn("peer-absent", travel.text())

    def test_direct(self):
        travel = self.travel([stream(5201, 10**9, 5000), stream(5201, 10**9, 0, peer="[::1]")],
                             [stream(5201, 0, 500, "not-earned")])
        self.assertEqual((travel.verdict(), travel.direct, travel.streams), ("direct", 2, 3))
        self.assertIn("direct 2/3, 99.9 % of the bytes (1× not-earned)", travel.text())

    def test_a_stream_that_left_early_is_not_direct(self):
        self.assertEqual(self.travel([stream(5201, 10**6, 10**9)]).verdict(), "partly")

    def test_other_ports_do_not_count(self):
        self.assertEqual(self.travel([stream(15201, 10**9, 0)]).streams, 0)
        self.assertEqual(self.travel([stream(52011, 10**9, 0)]).verdict(), "TCP")


def table_of(row, modes, turns=1, **samples):
    """A table of one run with one row, filled with figures by mode."""
    run = Run("run", None, modes, (row,), turns=turns)
    table = Table([run])
    for name, figures in samples.items():
        table.cells["run", name.replace("_",
                                        " ")].results = [{"value": figure} for figure in figures]
    return table, run


TIME = Row("time", "time", "µs", "value", 1, True)
RATE = Row("rate", "rate", "k/s", "value")


class RatioTests(unittest.TestCase):
    def says(self, row, tcp, spin):
        table, run = table_of(row, (TCP, SPIN), tcp=tcp, spin=spin)
        return report.ratio_text(table, run, row, SPIN)

    def test_direction(self):
        self.assertEqual(self.says(TIME, [20, 21, 19], [2, 2, 2]), "**10.00×**")
        self.assertEqual(self.says(RATE, [10, 11, 9], [20, 20, 20]), "**2.00×**")
        self.assertEqual(self.says(RATE, [10, 11, 9], [5, 5, 5]), "slower, 0.50×")

    def test_noise_is_no_gain(self):
        self.assertEqual(self.says(RATE, [10, 10, 10], [10.4, 10.4, 10.4]), "no gain, 1.04×")
        self.assertEqual(self.says(RATE, [10, 14, 9], [13, 12, 13]), "no gain, 1.30×")

    def test_pairs_cancel_what_both_sides_share(self):
        # The machine became faster during the run.
        table, run = table_of(RATE, (TCP, ONE_SIDE), tcp=[10, 20, 30, 40],
                              one_side=[9.9, 19.8, 29.7, 39.6])
        self.assertEqual(report.paired_text(table, run, RATE), "-1.0 % (-1.0 to -1.0)")

    def test_failure_shows(self):
        self.assertEqual(self.says(RATE, [10], []), "**failed**")


class PictureTests(unittest.TestCase):
    def kept(self, spin):
        modes = {"tcp": {"samples": [1, 1.2], "ratio": 1},
                 "spin": {"samples": spin, "ratio": spin[0]}}
        rows = [{"key": key, "title": key, "modes": modes} for key in gains.ROWS]
        return gains.kept_of({"when": "2026-01-02T03:04:05Z",
                              "machine": {"cpu": "x", "cpus": 2, "kernel": "6"}, "rows": rows})

    def test_what_overlaps_is_no_gain(self):
        for spin, text in ([2.5, 3], "**2.50×**"), ([1.3, 1.1],
                                                    "no gain, 1.30×"), ([0.5, 0.6], "slower, "
                                                                                    "0.50×"):
            modes = self.kept(spin)["rows"][0]["modes"]
            self.assertEqual(gains.cell_text(modes["spin"]), text)
            self.assertNotIn("sleep", modes)

    def test_a_picture_of_all_rows(self):
        drawn = gains.svg(self.kept([0.01, 0.02]))
        for title in gains.ROWS.values():
            self.assertIn(f">{title}<", drawn)
        self.assertNotRegex(drawn, r'width="-|x="-')

    def test_a_quick_run_is_refused(self):
        with self.assertRaises(SystemExit):
            gains.kept_of({"when": "", "machine": {}, "rows": []})


class TargetTests(unittest.TestCase):
    def verdict(self, row, target, **samples):
        table, run = table_of(row, (TCP, SPIN, SLEEP, UNIX, LIMIT), **samples)
        return verdict(table, run, row, target)

    def test_times_better_than_tcp(self):
        self.assertEqual(self.verdict(TIME, faster(3), tcp=[9], spin=[3]), ("met", 3))
        self.assertEqual(self.verdict(TIME, faster(3), tcp=[9], spin=[4]), ("not met", 2.25))
        self.assertEqual(self.verdict(RATE, faster(3, SLEEP), tcp=[2], spin=[99], sleep=[6]),
                         ("met", 3))
        self.assertEqual(self.verdict(RATE, faster(3, base=UNIX), tcp=[1], spin=[6], unix=[3]),
                         ("not met", 2))

    def test_times_the_limit(self):
        self.assertEqual(self.verdict(TIME, near_limit(1.5), tcp=[99], spin=[6], limit=[4]),
                         ("met", 1.5))
        self.assertEqual(self.verdict(TIME, near_limit(1.5), tcp=[99], spin=[8], limit=[4]),
                         ("not met", 2))
        self.assertEqual(self.verdict(RATE, near_limit(2), tcp=[1], spin=[4], limit=[12]),
                         ("not met", 3))

    def test_figures_by_themselves(self):
        self.assertEqual(self.verdict(TIME, figure_at_most(16), tcp=[1], spin=[15, 17, 16]),
                         ("met", 16))
        self.assertEqual(self.verdict(TIME, figure_at_most(16), tcp=[1], spin=[17]),
                         ("not met", 17))
        self.assertEqual(self.verdict(RATE, figure_at_least(5), spin=[4]), ("not met", 4))

    def test_not_below_is_refuted_by_samples_that_are_apart_only(self):
        self.assertEqual(self.verdict(RATE, faster(1), tcp=[10, 12], spin=[9, 11])[0], "open")
        self.assertEqual(self.verdict(RATE, faster(1), tcp=[10, 12], spin=[8, 9])[0], "not met")
        self.assertEqual(self.verdict(RATE, faster(2), tcp=[10, 30], spin=[11, 29])[0], "not met")

    def test_without_samples_nothing_is_met(self):
        self.assertEqual(self.verdict(TIME, near_limit(9), tcp=[9], spin=[9]), ("failed", None))
        self.assertEqual(self.verdict(TIME, figure_at_most(9), tcp=[9]), ("failed", None))

    def test_cost_by_its_interval(self):
        self.assertEqual([cost_verdict(CostTarget(1), *at)
                          for at in ((-0.9, 2), (-3, -1.1), (-3, 1))],
                         ["met", "not met", "open"])
        table, run = table_of(RATE, (TCP, ONE_SIDE), tcp=[10] * 5, one_side=[9] * 5)
        self.assertEqual(verdict(table, run, RATE, CostTarget(1))[0], "not met")

    def test_words(self):
        row = Row("x", "x", "µs", "value", 1, True,
                  (faster(2), near_limit(1.1, SLEEP), figure_at_most(16)))
        table, run = table_of(row, (TCP, SPIN, SLEEP, LIMIT), tcp=[10], spin=[4], sleep=[6],
                              limit=[4])
        self.assertEqual(report.target_text(table, run, row),
                         "≥ 2×: met (2.5×); sleeping ≤ 1.1× the limit: "
                         "**not met** (1.5×); ≤ 16 µs: met (4 µs)")


class RowsTests(unittest.TestCase):
    def test_every_part_of_the_issue_has_a_row_with_a_target(self):
        parts = {part for run in RUNS for row in run.rows if row.targets
                 for part in row.part.split()}
        self.assertEqual(parts, {f"P{n}" for n in range(1, 14)})

    def test_names_are_unique_and_modes_are_there(self):
        self.assertEqual(len({run.key for run in RUNS}), len(RUNS))
        keys = [row.key for run in RUNS for row in run.rows]
        self.assertEqual(len(set(keys)), len(keys))
        for run in RUNS:
            for row in run.rows:
                for target in row.targets:
                    needed = ({TCP, ONE_SIDE} if isinstance(target, CostTarget)
                              else {target.mode, target.base or TCP})
                    self.assertLessEqual(needed, set(run.modes), row.key)

    def test_the_time_that_was_promised(self):
        self.assertLess(sum(run.duration_s(*compare.FULL) for run in RUNS), 25 * 60)
        self.assertLess(sum(run.duration_s(*compare.QUICK) for run in RUNS if run.quick), 210)


class OutputTests(unittest.TestCase):
    """Real output of programs."""

    def test_wrk(self):
        said = ("  Latency Distribution\n     50%   27.00us\n     75%   29.00us\n     99%    "
                "1.30ms\n"
                "  36001 requests in 1.10s, 28.77MB read\nRequests/sec:  32731.55\n")
        self.assertEqual(rows_programs.wrk_figures(said), {"per_s": 32731.55, "p50_s": 27e-6})
        self.assertAlmostEqual(rows_programs.wrk_figures(
            said.replace("27.00us", "1.25ms"))["p50_s"], 1.25e-3)
        for wrong in ("", said + "  Socket errors: connect 0, read 5\n",
                      said.replace("32731.55", "0.00")):
            with self.assertRaises(Failure):
                rows_programs.wrk_figures(wrong)

    def test_redis_benchmark(self):
        said = ('WARNING: Could not fetch server '
                'CONFIG\n"test","rps","avg_latency_ms","p50_latency_ms"\n'
                '"GET","32573.29","0.026","0.023"\n')
        self.assertEqual(rows_programs.redis_figures(said)["rps"], 32573.29)
        with self.assertRaises(Failure):
            rows_programs.redis_figures("Could not connect\n")

    def test_memcaslap(self):
        said = "get_misses: 0\n\nRun time: 0.3s Ops: 20000 TPS: 63001 Net_rate: 70.5M/s\n"
        self.assertEqual(rows_programs.memcaslap_figures(said), {"per_s": 63001})
        with self.assertRaises(Failure):
            rows_programs.memcaslap_figures("memcaslap: error\n")

    def test_limits_and_streams_read_alike(self):
        self.assertEqual(rows_rsperf.gbit({"limit": "copy", "size_bytes": 1000,
                                           "rtt_ns": {"p50": 1000}}), 8)
        self.assertEqual(rows_rsperf.gbit({"out": {"gbit_per_s": 9}}), 9)


class PlotTests(unittest.TestCase):
    def test_percentiles_by_distance(self):
        self.assertEqual([round(plots.odds(p)) for p in (0, 90, 99, 99.9)], [1, 10, 100, 1000])

    def test_curves_and_script(self):
        result = {"runs": [{"key": "k",
                            "modes": {"tcp": {"results": [{"64": 3, "4096": 9},
                                                          {"64": 5, "4096": 7}]}}}]}
        curves = plots.sweep_curves(result, "k")
        self.assertEqual(curves, {"tcp": [(64, 4, 3, 5), (4096, 8, 7, 9)]})
        text = plots.script("t", "bytes", "µs", "x", curves,
                            plots.xtics([64, 4096], plots.size_text))
        for line in ('set xtics ("64" 64, "4Ki" 4096)', "64 4 3 5", "set logscale x"):
            self.assertIn(line, text.splitlines())
        self.assertEqual(plots.sweep_curves(result, "other"), {})

    def test_drawn(self):
        result = {"runs": [{"key": "by_conns", "modes": {"tcp": {"results": [{"1": 3, "2": 9}]}}}]}
        with tempfile.TemporaryDirectory() as folder:
            drawn = plots.draw(result, pathlib.Path(folder))
            self.assertEqual([path.name for path in drawn], ["scaling.svg"])
            self.assertIn("connections", drawn[0].read_text())


class StageTests(unittest.TestCase):
    def test_all_ends(self):
        with self.assertRaises(Failure), Stage(TCP) as stage:
            folder = stage.dir
            # A server that starts another process and does not end it on SIGTERM: that process
            # would outlive the stage.
            stage.server("python3", "-c", "import socket, subprocess, signal, sys\n"
                         "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
                         f"s = socket.create_server(('127.0.0.1', {stage.port}))\n"
                         "subprocess.run(['sleep', '600'])")
            group = stage.processes[0].pid
            stage.client("sh", "-c", "exit 7")
        self.assertFalse(folder.exists())
        deadline = time.monotonic() + 5
        while alive := [p for p in os.listdir("/proc") if p.isdigit()
                        and self.group_of(p) == group]:
            self.assertLess(time.monotonic(), deadline, alive)

    @staticmethod
    def group_of(pid):
        """0 for a process that has ended, also if it has not been reaped."""
        try:
            cells = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            return 0
        return 0 if cells[0] in "ZX" else int(cells[2])

    def test_processor_time_of_all(self):
        with Stage(TCP) as stage:
            # Started by a shell, so that a grandchild is counted, too.
            stage.client("sh", "-c", "python3 -c 'sum(range(5000000))'; true")
            self.assertTrue(0.01 < stage.cpu_s() < 10)

    def test_a_client_that_does_not_end_is_a_failure(self):
        with self.assertRaisesRegex(Failure, "did not end"), Stage(TCP) as stage:
            stage.client("sleep", 600, timeout_s=0.05)

    def test_a_server_that_dies_is_a_failure(self):
        with self.assertRaisesRegex(Failure, "ended: no"), Stage(TCP) as stage:
            stage.server("sh", "-c", "echo no; exit 3")

    def test_a_library_that_is_not_there_is_a_failure(self):
        with self.assertRaisesRegex(Failure, "without the library"), Stage(SPIN) as stage:
            stage.client("sh", "-c", "LD_PRELOAD=./no-such-library.so exec true")

    def test_a_server_that_crashes_at_its_end_shows(self):
        with Stage(TCP) as stage:
            stage.server("python3", "-c", "import os, signal, socket, time\n"
                         "signal.signal(signal.SIGTERM, lambda *_: os.abort())\n"
                         f"s = socket.create_server(('127.0.0.1', {stage.port}))\n"
                         "time.sleep(600)")
        self.assertEqual(stage.crashes, ["python3 ended by SIGABRT"])

    def test_preloading_is_by_mode_only(self):
        os.environ["RSOCK_LOG"] = "debug"
        self.addCleanup(os.environ.pop, "RSOCK_LOG")
        for mode, wanted in ((TCP, ""), (SPIN, str(stages.LIBRSOCK))):
            stage = Stage(mode)
            env = stage._env(mode.client, "stat")
            self.assertEqual(env.get("LD_PRELOAD", ""), wanted)
            self.assertNotIn("RSOCK_LOG", env)


if __name__ == "__main__":
    unittest.main(verbosity=2)
