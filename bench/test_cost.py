#!/usr/bin/env python3
"""Tests of rdma_cost.py without guests: parsing of what the kernels report, and the tables."""
import unittest

import rdma_cost


class KernelTests(unittest.TestCase):
    """Output of the kernels."""

    def test_status(self):
        said = rdma_cost.status("Name:\tx\nVmLck:\t       8 kB\nVmPin:\t     128 kB\nVmRSS:\t    "
                                "5000 kB\nRssAnon:\t  900 kB\nThreads:\t1\n")
        self.assertEqual(said, {"resident": 5000, "anonymous": 900, "locked": 8, "pinned": 128})

    def test_memory_files(self):
        smaps = ("7f00-7f01 rw-s 00000000 00:01 5    /memfd:rsock-link (deleted)\nSize: 400 "
                 "kB\nRss: 12 kB\nPss: 12 kB\n"
                 "7f01-7f02 ---s 00000000 00:01 5    /memfd:rsock-link (deleted)\nRss: 4 kB\n"
                 "7f02-7f03 rw-p 00000000 00:00 0 \nRss: 100 kB\n7f03-7f04 rw-s 0 00:01 6 "
                 "/memfd:rsock-mirror (deleted)\nRss: 8 kB\n")
        self.assertEqual(rdma_cost.memory_files(smaps), {"rsock-link": 16, "rsock-mirror": 8})

    def test_control(self):
        said = ('ESTAB 0 0 10.9.0.1:4000 10.9.0.2:7500 users:(("p",pid=7,fd=3)) cubic '
                'bytes_sent:999 data_segs_out:99\n'
                'ESTAB 0 0 10.9.0.1:4001 10.9.0.2:4242 users:(("p",pid=7,fd=700)) cubic '
                'bytes_sent:300 data_segs_out:5\n'
                'ESTAB 0 0 10.9.0.1:4002 10.9.0.2:4242 users:(("q",pid=8,fd=700)) cubic '
                'bytes_sent:300 data_segs_out:5\n')
        self.assertEqual(rdma_cost.control(said, 7, 7500), (5, 300))

    def test_to_ring(self):
        history = [{"time_ns": 5e9, "event": "opened"}, {"time_ns": 6e9, "event": "promoted-tx"},
                   {"time_ns": 7e9, "event": "promoted-rx"}]
        self.assertEqual(rdma_cost.to_ring_s({"history": history}), 2)
        self.assertIsNone(rdma_cost.to_ring_s({"history": history[1:]}))


class TableTests(unittest.TestCase):
    def test_what_one_more_costs(self):
        def look(each):
            return {name: each for name in rdma_cost.NAMES}
        runs = [{"count": count, "looks": [[look(0)] * 2, [look(10)] * 2,
                                           [look(10 + 3 * (count
                                                           - 1))] * 2][:3 if count > 1 else 2],
                 "first_s": 1.5, "others_s": [0.2] * (count - 1)} for count in (1, 3)]
        first = {"took": [[0, 0.1], [0.2, 0.1], [2, 0.3]], "direct_s": 1}
        text = "\n".join(rdma_cost.markdown({"runs": runs, "first_bytes": [first]}))
        self.assertIn("| pinned | 0 / 0 | 10 / 10 | 3 / 3 |", text)
        self.assertIn("| 3 | 1.50 | 0.20 (0.20 to 0.20) |", text)
        self.assertIn("| 0.10 (0.10 to 0.10) | 1.00 (1.00 to 1.00) | 1.30 (1.30 to 1.30) | 0.10 "
                      "(0.10 to 0.10) | 0.30", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
