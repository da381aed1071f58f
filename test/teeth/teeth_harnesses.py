#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks the test scripts in Python: with RSOCK_TEST_FAIL in the environment each has a case that
fails, and its exit status must say so."""
import unittest

from teeth import TEST, Teeth

PYTHON = "/usr/bin/python3"
LABELS = ("net", "fault", "real", "tool", "rdma")
CASES = '''
import os, signal, sys, time
sys.path.insert(0, %r)
from lib.harness import Failure, case, main
@case(timeout=20)
def right(t):
    t.equal(t.run(["echo", "word"]), "word\\n", "echo")
@case(timeout=20)
def wrong(t):
    t.check(False, "wrong")
@case(timeout=20)
def unforeseen(t):
    raise ValueError("what no one thought of")
@case(timeout=20)
def crash(t):
    t.spawn(["sh", "-c", "kill -SEGV $$"]).popen.wait()
@case(timeout=20)
def status(t):
    t.run(["false"])
@case(timeout=1)
def hang(t):
    t.until(lambda: False, 60, "nothing")
@case(timeout=20)
def told_to_end(t):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)
@case(timeout=20)
def not_direct(t):
    t.not_direct.append("stayed on TCP")
sys.exit(main())
'''


def scripts():
    return [path for label in LABELS for path in sorted((TEST / label).glob(f"{label}_*.py"))]


class Harness(Teeth):
    def test_each_script_can_fail(self):
        self.assertGreater(len(scripts()), 40)
        for path in scripts():
            with self.subTest(path.name):
                self.passes(PYTHON, "-B", path, "--list")
                self.assertTrue(self.said, "no cases")
                case = self.said.split()[0]
                self.fails(PYTHON, "-B", path, case, with_status=1,
                           says=f"FAIL {case}: RSOCK_TEST_FAIL", RSOCK_TEST_FAIL=1)

    def test_a_case_that_is_not_there(self):
        for path in scripts():
            if not path.name.startswith("rdma_"):  # these boot their guests first
                self.fails(PYTHON, "-B", path, "no_such_case", with_status=2)

    def test_each_way_to_fail(self):
        path = self.write("cases.py", CASES % str(TEST))
        self.passes(PYTHON, "-B", path, "right")
        for case, status in {"wrong": 1, "unforeseen": 1, "crash": 1, "status": 1, "hang": 1,
                             "told_to_end": 1,
                             "not_direct": 3}.items():
            with self.subTest(case):
                self.fails(PYTHON, "-B", path, case, with_status=status)
        # One failure among cases that pass, first or last.
        self.fails(PYTHON, "-B", path, "wrong", "right", with_status=1)
        self.fails(PYTHON, "-B", path, "right", "wrong", with_status=1)
        # The end of the output names the cases that failed, and why.
        self.fails(PYTHON, "-B", path, "wrong", "unforeseen", "not_direct", "right", with_status=1)
        self.assertTrue(self.said.endswith("failed: wrong: wrong\nfailed: unforeseen: the test "
                                           "program met something unexpected: "
                                           "ValueError('what no one thought of')\nfailed: "
                                           "not_direct: stayed on TCP\n"), self.said)
        self.fails(PYTHON, "-B", path, "right", "told_to_end", "right", with_status=1)
        self.fails(PYTHON, "-B", path, "--tcp", "--expect", "3", "right")
        self.passes(PYTHON, "-B", path, "--tcp", "--expect", "3", "not_direct")

    def test_no_cases_and_no_library(self):
        path = self.write("cases.py", CASES.split("@case")[0] % str(TEST)
                          + "sys.exit(main())\n")
        self.fails(PYTHON, "-B", path, with_status=2)
        path = self.write("cases.py", CASES % str(TEST))
        self.fails(PYTHON, "-B", path, "right", with_status=2, LIBRSOCK="")
        self.fails(PYTHON, "-B", path, "right", with_status=2, LIBRSOCK=self.tmp / "none.so")

    def test_packages(self):
        self.fails(PYTHON, "-B", TEST / "deb/test_deb.py", with_status=1, says="RSOCK_TEST_FAIL",
                   RSOCK_TEST_FAIL=1)


if __name__ == "__main__":
    unittest.main()
