#!/usr/bin/env python3
"""The comparisons' own judgement: what counts as direct, what as gain, and that no process outlives its stage."""
import json
import os
import pathlib
import tempfile
import time
import unittest

import compare
import harness
from harness import TCP, SPIN, Failure, Stage
from rows import ROWS


def stream(port, ring, tcp, reason="direct", peer="127.0.0.1"):
    return {"peer": f"{peer}:{port}", "tx_ring_bytes": ring, "rx_ring_bytes": 0, "tx_tcp_bytes": tcp,
            "rx_tcp_bytes": 0, "demotions": 0, "reason": reason}


class TravelTests(unittest.TestCase):
    def travel(self, *lines):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "stat"
            if lines:
                path.write_text("".join(json.dumps({"streams": streams}) + "\n" for streams in lines))
            return harness.read_travel(path, 5201)

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


class RatioTests(unittest.TestCase):
    def says(self, key, tcp, spin):
        row = next(row for row in ROWS if row.key == key)
        cells = {(key, TCP.name): compare.Cell(), (key, SPIN.name): compare.Cell()}
        cells[key, TCP.name].samples, cells[key, SPIN.name].samples = tcp, spin
        return compare.ratio_text(row, cells, SPIN)

    def test_direction(self):
        self.assertEqual(self.says("lat_recv", [20, 21, 19], [2, 2, 2]), "**10.00×**")
        self.assertEqual(self.says("bw", [10, 11, 9], [20, 20, 20]), "**2.00×**")
        self.assertEqual(self.says("bw", [10, 11, 9], [5, 5, 5]), "slower, 0.50×")

    def test_noise_is_no_gain(self):
        self.assertEqual(self.says("bw", [10, 10, 10], [10.4, 10.4, 10.4]), "no gain, 1.04×")
        self.assertEqual(self.says("bw", [10, 14, 9], [13, 12, 13]), "no gain, 1.30×")

    def test_pairs_cancel_what_both_sides_share(self):
        row = next(row for row in ROWS if row.key == "alone_bw")
        cells = {(row.key, mode.name): compare.Cell() for mode in row.modes}
        cells[row.key, TCP.name].samples = [10, 20, 30, 40]  # the machine got faster and faster
        cells[row.key, harness.ONE_SIDE.name].samples = [9.9, 19.8, 29.7, 39.6]
        self.assertEqual(compare.paired_text(row, cells), "-1.0 % (-1.0 to -1.0)")

    def test_failure_shows(self):
        self.assertEqual(self.says("bw", [10], []), "**failed**")


class StageTests(unittest.TestCase):
    def test_all_ends(self):
        with self.assertRaises(Failure), Stage(TCP) as stage:
            folder = stage.dir
            # A server that starts another process and ignores being asked to end would outlive the stage.
            stage.server("python3", "-c", "import socket, subprocess, signal, sys\n"
                         "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
                         f"s = socket.create_server(('127.0.0.1', {stage.port}))\n"
                         "subprocess.run(['sleep', '600'])")
            group = stage.processes[0].pid
            stage.client("sh", "-c", "exit 7")
        self.assertFalse(folder.exists())
        deadline = time.monotonic() + 5
        while alive := [p for p in os.listdir("/proc") if p.isdigit() and self.group_of(p) == group]:
            self.assertLess(time.monotonic(), deadline, alive)

    @staticmethod
    def group_of(pid):
        """0 for what has ended, or has only not been waited for."""
        try:
            cells = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            return 0
        return 0 if cells[0] in "ZX" else int(cells[2])

    def test_a_server_that_dies_is_a_failure(self):
        with self.assertRaisesRegex(Failure, "ended: no"), Stage(TCP) as stage:
            stage.server("sh", "-c", "echo no; exit 3")

    def test_preloading_is_by_mode_only(self):
        os.environ["RSOCK_LOG"] = "debug"
        self.addCleanup(os.environ.pop, "RSOCK_LOG")
        for mode, wanted in ((TCP, ""), (SPIN, str(harness.LIBRSOCK))):
            stage = Stage(mode)
            env = stage._env(mode.client, "stat")
            self.assertEqual(env.get("LD_PRELOAD", ""), wanted)
            self.assertNotIn("RSOCK_LOG", env)


if __name__ == "__main__":
    unittest.main(verbosity=2)
