#!/usr/bin/env python3
"""Tests of rdma.py without guests: parsing of programs' output, what counts as accelerated, what
the tables show."""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import rdma
import rdma_report
import rdma_rows
import stages
from rdma_rows import RUNS
from rdma_stage import (ASLEEP, GET_EACH, GET_ONCE, MODES, PEERS, RSOCK, RSOCKET, SMC_R, Witness,
                        accelerated, tcp_segments)
from stages import LIMIT, TCP, Failure, Travel
from table import Row, Run, Table

RATE = Row("rate", "a rate", "Mb/s", "value")
TIME = Row("time", "a time", "µs", "value", 1, True)
LIBRARIES = pathlib.Path(stages.LIBRSOCK).parent
DIRECT = Travel(known=True, streams=1, direct=1, ring_bytes=100)
PLAIN = Travel(known=True, streams=1, tcp_bytes=100, reasons={"no-peer": 1})


def table_of(row, ways=None, **samples):
    """Samples by mode, _ for -; ways: the modes whose bytes did not use the named transport."""
    run = Run("run", None, MODES, (row,))
    table = Table([run])
    for name, values in samples.items():
        mode = next(mode for mode in MODES if mode.name == name.replace("_", "-"))
        for number, value in enumerate(values):
            table.cell(run, mode).results.append(
                {"value": value, "round": number, "accelerated": mode not in (ways or ()),
                 "witness": vars(Witness(rdma_packets=value))})
    return table, run


class OutputTests(unittest.TestCase):
    """Real output of programs."""

    LAT = (" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
           "t_stdev[usec]   "
           "99% percentile[usec]   99.9% percentile[usec] \n"
           " 64      500          250.00         9000.25      300.50     \t       350.00         "
           "10.00           900.00"
           "              1000.00 \n----\n")
    BW = (" #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
          " 65536      250            13.15              13.70              0.000219\n")

    def test_perftest(self):
        figures = rdma_rows.perftest_figures("Waiting\n" + self.LAT)
        self.assertEqual((figures["t_typical"], figures["99% percentile"]), (300.5, 900))
        self.assertEqual(rdma_rows.perftest_figures(self.BW)["BW average"], 13.7)
        for wrong in ("", self.LAT.replace("1000.00", ""), "Couldn't connect to 10.9.0.2:18515\n"):
            with self.assertRaises(Failure):
                rdma_rows.perftest_figures(wrong)

    def test_limits_and_ways_read_alike(self):
        turn = mock.Mock(mode=LIMIT, port=1, host="10.9.0.2")
        turn.client.return_value = self.LAT
        result = rdma_rows.round_trips(64, 500)(turn, 1)
        self.assertEqual(result["rtt_ns"], {"p50": 601000, "p99": 1800000})
        self.assertEqual(turn.client.call_args.args[0], "ib_write_lat")
        turn.mode = ASLEEP
        self.assertEqual(rdma_rows.round_trips(64, 500)(turn, 1)["rtt_ns"]["p50"], 601000)
        self.assertEqual(turn.client.call_args.args[:2], ("ib_send_lat", "--events"))
        turn.mode, turn.client.return_value = LIMIT, self.BW
        self.assertEqual(rdma_rows.stream(65536, 250)(turn, 1)["bits_per_s"],
                         13.7 * 8 * 1024 * 1024)

    def test_gets(self):
        turn = mock.Mock(mode=GET_EACH, port=7, host="10.9.0.2")
        turn.client.return_value = ('{"size_bytes": 1048576, "messages": 20, "seconds": 1.0, '
                                    '"bits_per_s": 167772160}\n')
        self.assertEqual(rdma_rows.stream(1 << 20, 20)(turn, 1)["bits_per_s"], 167772160)
        self.assertEqual(turn.client.call_args.args,
                         ("rdma_bulk", "client", "10.9.0.2", 7, 1 << 20, 1, "each"))
        self.assertEqual(turn.server.call_args.args, ("rdma_bulk", "server", "10.9.0.2", 7))
        turn.mode = GET_ONCE
        rdma_rows.stream(65536, 250)(turn, 1)
        self.assertEqual(turn.client.call_args.args[-1], "once")

    def test_redis(self):
        said = '"test","rps","avg_latency_ms"\n"SET","81.77","11.8"\n"GET","404.53","31.2"\n'
        self.assertEqual(rdma_rows.redis_figures("WARNING: Could not fetch server CONFIG\n" + said),
                         {"set": 81.77, "get": 404.53})
        for wrong in ("Could not connect to Redis\n", said.replace("404.53", "0.00"),
                      said.replace("GET", "PING")):
            with self.assertRaises(Failure):
                rdma_rows.redis_figures(wrong)

    def test_segments(self):
        netstat = ("TcpExt: SyncookiesSent TCPOrigDataSent\nTcpExt: 0 17\n"
                   "IpExt: InOctets\nIpExt: 5\n")
        self.assertEqual(tcp_segments(netstat), 17)
        with self.assertRaises(Failure):
            tcp_segments(netstat.replace("TCPOrigDataSent", "TCPOther"))


class AcceleratedTests(unittest.TestCase):
    def test_the_wire_decides(self):
        over = {"rdma": Witness(100, 5, 2, 0), "tcp": Witness(0, 100, 2, 0),
                "half": Witness(100, 100, 2, 0),
                "nothing": Witness(), "fallback": Witness(100, 5, 2, 1),
                "no smc": Witness(100, 5, 0, 0)}
        expected = {
            (TCP, "tcp"): True, (TCP, "rdma"): False, (TCP, "half"): False,
            (RSOCKET, "rdma"): True, (RSOCKET, "tcp"): False, (RSOCKET, "half"): False,
                    (RSOCKET, "nothing"): False,
            (SMC_R, "rdma"): True, (SMC_R, "fallback"): False, (SMC_R, "no smc"): False,
                    (SMC_R, "tcp"): False,
            (LIMIT, "rdma"): True, (LIMIT, "nothing"): False}
        for (mode, wire), answer in expected.items():
            self.assertEqual(accelerated(mode, over[wire], Travel()), answer, f"{mode.name} {wire}")

    def test_rsock_and_the_wire_must_agree(self):
        rdma_, tcp = Witness(100, 5), Witness(5, 100)
        self.assertEqual([accelerated(RSOCK, wire, travel) for wire, travel in
                          ((rdma_, DIRECT), (rdma_, PLAIN), (tcp, DIRECT), (tcp, PLAIN),
                           (rdma_, Travel()))],
                         [True, False, False, False, False])

    def test_what_a_turn_added(self):
        self.assertEqual(Witness(5, 7, 2, 1) - Witness(1, 2, 1, 1), Witness(4, 5, 1, 0))
        self.assertEqual(Witness(30, 10).share(), 0.75)


class ReportTests(unittest.TestCase):
    def ratio(self, row, mode, base, ways=None, **samples):
        table, run = table_of(row, ways, **samples)
        return rdma_report.ratio_text(table, run, row, mode, base)

    def test_ratios(self):
        self.assertEqual(self.ratio(TIME, RSOCK, TCP, tcp=[10, 12], rsock=[5, 4]),
                         "**2.50× (2.00 to 3.00)**")
        self.assertEqual(self.ratio(RATE, RSOCKET, TCP, tcp=[10, 12], rsocket=[4, 3]),
                         "0.33× (0.25 to 0.40)")
        self.assertEqual(self.ratio(RATE, RSOCK, RSOCKET, rsocket=[10, 20], rsock=[15, 16]),
                         "1.15× (0.80 to 1.50)")
        self.assertEqual(self.ratio(RATE, RSOCK, RSOCKET, rsock=[15, 16]), "**failed**")

    def test_only_rounds_that_have_both(self):
        table, run = table_of(RATE, tcp=[10, 20, 30], rsock=[20, 1, 90])
        del table.cell(run, RSOCK).results[1]
        self.assertEqual(rdma_report.ratios(table, run, RATE, RSOCK, TCP), [2, 3])

    def test_what_went_by_tcp_is_no_gain(self):
        for way in (RSOCK, SMC_R):
            self.assertEqual(self.ratio(RATE, RSOCK, SMC_R, (way,), smc_r=[10], rsock=[20]),
                             "**not accelerated**, 2.00× (2.00 to 2.00)")

    def test_ahead_of_both(self):
        def ahead(ways=(), **samples):
            table, run = table_of(RATE, ways, **samples)
            return rdma_report.ahead_text(table, run, RATE)
        self.assertEqual(ahead(rsocket=[1], smc_r=[2], rsock=[3]), "ahead")
        self.assertEqual(ahead(rsocket=[1], smc_r=[4], rsock=[3]), "**not ahead** of SMC-R")
        self.assertEqual(ahead(smc_r=[2], rsock=[3]), "ahead (nothing of rsocket)")
        self.assertEqual(ahead((SMC_R,), rsocket=[4], smc_r=[2], rsock=[3]),
                         "**not ahead** of rsocket (nothing of SMC-R)")
        self.assertEqual(ahead((RSOCK,), rsocket=[1], smc_r=[2], rsock=[3]), "**not accelerated**")
        self.assertEqual(ahead(rsocket=[1], smc_r=[2]), "**failed**")

    def test_times_bare_verbs(self):
        table, run = table_of(TIME, (RSOCK,), tcp=[10], rsocket=[20], rsock=[7], limit=[5])
        self.assertEqual(rdma_report.limit_text(table, run, TIME, LIMIT), "2.00 / 4.00 / - / -")

    def test_one_sample_that_went_by_tcp_marks_all(self):
        table, run = table_of(RATE, rsock=[3, 4])
        self.assertTrue(rdma_report.went(table, run, RSOCK))
        table.cell(run, RSOCK).results[1]["accelerated"] = False
        self.assertFalse(rdma_report.went(table, run, RSOCK))
        self.assertIn("NOT ACCELERATED", rdma_report.way_text(table, run, RSOCK))
        self.assertEqual(rdma_report.figure_text(table, run, RATE, RSOCK), "(3.5 ±14 %)")

    def test_failures_show_in_the_table(self):
        table, run = table_of(RATE, tcp=[1])
        table.cell(run, RSOCKET).errors.append("redis-server was ended by SIGSEGV:\n | x")
        text = "\n".join(rdma_report.markdown(table))
        self.assertIn("**1 failed**: redis-server was ended by SIGSEGV: / x", text)
        columns = {line.count("|") for line in text.splitlines() if line.startswith("| run")}
        self.assertEqual(columns, {len(MODES) + 2})

    def test_json_and_plot(self):
        table, _ = table_of(RATE, (RSOCK,), tcp=[10, 10], smc_r=[5, 5], rsock=[20, 20],
                            limit=[20, 20])
        with tempfile.TemporaryDirectory() as folder:
            result = rdma_report.write_json(pathlib.Path(folder) / "r.json", table, rounds=2)
            titles, columns = rdma_report.bars(result)
            self.assertEqual((titles, [columns[mode] for mode in (RSOCKET, SMC_R, RSOCK, LIMIT)]),
                             (["a rate"], [[None], [0.5], [None], [2]]))
            self.assertIn('"a rate" - 0.5 - 2 - - -',
                          rdma_report.script(titles, columns).splitlines())
            drawn = rdma_report.draw(result, pathlib.Path(folder) / "r")
            self.assertIn("SMC-R", drawn[0].read_text())
        self.assertEqual(result["rows"][0]["ahead"], "not accelerated")


class RoundsTests(unittest.TestCase):
    def orders(self, fails=()):
        """The modes of each round, in the order of measurement."""
        run = Run("run", None, PEERS, (RATE,))
        table, seen = Table([run]), []

        def measure(_guests, _run, mode, _seconds, cell, _number):
            seen[-1].append(mode)
            (cell.errors if mode in fails else cell.results).append("x")
        with mock.patch.object(rdma, "measure", measure):
            for number in range(4):
                seen.append([])
                rdma.measure_round(None, table, number, 1)
        return seen

    def test_all_in_each_round_and_each_first_once(self):
        orders = self.orders()
        self.assertTrue(all(set(order) == set(PEERS) for order in orders))
        self.assertEqual({order[0] for order in orders}, set(PEERS))

    def test_what_cannot_run_is_tried_once_but_ours_always(self):
        orders = self.orders((RSOCKET, RSOCK))
        self.assertEqual([sum(order.count(mode) for order in orders) for mode in PEERS],
                         [4, 1, 4, 4])

    def test_no_round_begins_that_would_end_too_late(self):
        clock = iter(range(0, 10000, 100))
        args = argparse.Namespace(rounds=9, minutes=10, seconds=1)
        with mock.patch.object(rdma, "measure_round"), \
                mock.patch.object(rdma.time, "monotonic", lambda: next(clock)):
            self.assertEqual(rdma.measure_all(None, None, args, 0), 3)
            args.minutes = 0.1
            self.assertEqual(rdma.measure_all(None, None, args, 0), 2)

    def test_rows(self):
        keys = [row.key for run in RUNS for row in run.rows]
        self.assertEqual(len(set(keys)), len(keys))
        for run in RUNS:
            self.assertTrue(set(PEERS) <= set(run.modes), run.key)


class ShimTests(unittest.TestCase):
    def python(self, shim, lines):
        return subprocess.run([sys.executable, "-c", "from socket import *\n" + lines],
                              capture_output=True, text=True, check=True,
                              env={**os.environ,
                                   "LD_PRELOAD": str(LIBRARIES / f"{shim}.so")}).stdout.split()

    def test_smc(self):
        """TCP sockets request SMC, which not every kernel supports; other sockets are left
        unchanged."""
        said = self.python("smc_shim",
                           "for family, kind in ((AF_INET, SOCK_STREAM), (AF_INET6, SOCK_STREAM | "
                           "SOCK_NONBLOCK),\n"
                           "                     (AF_INET, SOCK_DGRAM), (AF_UNIX, SOCK_STREAM)):\n"
                           "  try: print(int(socket(family, kind).getsockopt(SOL_SOCKET, "
                           "SO_DOMAIN)))\n"
                           "  except OSError as error: print(error.strerror.split()[0])\n"
                           .replace("SO_DOMAIN", "39"))
        for domain in said[:2]:
            self.assertIn(domain, ("43", "Address"),
                          "neither AF_SMC nor: Address family not supported")
        self.assertEqual(said[2:], ["2", "1"])

    def test_flags_of_sockets(self):
        said = self.python("rsocket_shim", "import ctypes, fcntl, os\n"
                           "flags = lambda s: bool(fcntl.fcntl(s, fcntl.F_GETFL) & os.O_NONBLOCK)\n"
                           "server = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK)\n"
                           "plain = socket(AF_INET, SOCK_STREAM)\n"
                           "plain.bind(('127.0.0.1', 0)); plain.listen()\n"
                           "client = create_connection(plain.getsockname())\n"
                           "taken = ctypes.CDLL(None).accept4(plain.fileno(), None, None, "
                           "SOCK_NONBLOCK)\n"
                           "print(flags(server), flags(plain), flags(taken))\n")
        self.assertEqual(said, ["True", "False", "True"])


class ImportTests(unittest.TestCase):
    def test_one_failure(self):
        """What test/rdma raises is what the comparisons handle."""
        import rdma_stage
        self.assertIs(rdma_stage.rdmalab.Failure, Failure)


if __name__ == "__main__":
    unittest.main(verbosity=2)
