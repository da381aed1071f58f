#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks the test programs: the runners of the app cases, of the unit tests (Criterion's and the
project's own), of the fuzz corpora and of the models, and the regression guard."""
import re
import unittest

from teeth import BUILD, ROOT, TEST, Teeth

BIN = BUILD / "bin"
BROKEN = BUILD / "lib/libteeth_broken.so"
WAYS = {"old_assert", "old_expect", "new_assert", "new_expect", "crash", "exit_status", "no_signal",
        "init", "fini", "parameter"}
GOOD = "active proctype one() { int x = 1; assert(x == 1) }\n"
MODELS = {
    "assertion": "active proctype one() { assert(false) }\n",
    "deadlock": "chan c = [0] of { int };\nactive proctype one() { c!1 }\n",
    "claim": "bool x;\nactive proctype one() { do :: x = 0 od }\nltl soon { <> x }\n",
    "mutant": "/* MUTANT: -DNOTHING */\n" + GOOD,
    "syntax": "active proctype one( { }\n",
    "depth": "/* PAN: -m3 */\nactive proctype one() { int x; do :: x < 100 -> x++ :: else -> break "
             "od }\n",
}
GUARD = """
import json, pathlib, sys
sys.path.insert(0, {folder!r})
import guard
bounds = json.loads(guard.BOUNDS.read_text())
def count_all(library):
    def times(state, what):
        return {factor} if state == "direct" and what == "instructions" else 1
    return {{state: {{name: {{what: row.get(what, 0) * times(state, what) for what in guard.COUNTS}}
                    for name, row in rows.items()}} for state, rows in bounds.items()}}
guard.count_all = count_all
sys.argv[1:] = []
sys.exit(guard.main())
"""


# Programs that cases of test/app start.
STARTED = {"app_static_cat", "app_std_cout", "app_std_echo", "app_std_puts", "app_std_variable"}


class App(Teeth):
    def first_case(self, program):
        self.passes(program, "--list")
        return self.said.split()[0]

    def test_each_family_can_fail(self):
        families = [path for path in sorted(BIN.glob("app_*")) if path.name not in STARTED]
        self.assertGreater(len(families), 30)
        for program in families:
            with self.subTest(program.name):
                self.fails(program, "--mode", "both", self.first_case(program), with_status=1,
                           says="signal 6",
                           LIBRSOCK=BROKEN, RSOCK_TEETH="abort")

    def test_transcripts_are_compared(self):
        for side in "server", "client":
            self.fails(BIN / "app_io", "--mode", side, "--all", with_status=1, says="side differs",
                       LIBRSOCK=BROKEN,
                       RSOCK_TEETH="flip")

    def test_streams_that_are_not_direct(self):
        self.fails(BIN / "app_io", "--mode", "both", self.first_case(BIN / "app_io"), with_status=1,
                   says="not direct",
                   LIBRSOCK=BROKEN)

    def test_no_case_and_no_library(self):
        self.fails(BIN / "app_io", "no_such_case")
        self.fails(BIN / "app_io")
        self.fails(BIN / "app_io", "--all", LIBRSOCK=self.tmp / "none.so")

    def test_all_families(self):
        self.fails("sh", TEST / "app/all.sh", self.tmp, "--list")
        self.write("app_one", "#!/bin/sh\nexit 1\n", 0o755)
        self.write("app_two", "#!/bin/sh\n", 0o755)
        self.fails("sh", TEST / "app/all.sh", self.tmp, "--list")

    def test_symbols(self):
        self.fails(TEST / "app/has-symbols.sh", BIN / "app_fortify", "no_such_symbol")
        self.fails(TEST / "app/has-symbols.sh", self.tmp / "none", "__read_chk")


class Unit(Teeth):
    def test_criterion(self):
        for way in sorted(WAYS):
            with self.subTest(way):
                self.status(BIN / "teeth_unit", "--color=never", "--verbose",
                            f"--filter=fail*/{way}")
                self.assertNotIn("Tested: 0 ", self.said)
                # A failure in .fini is only printed.
                self.assertTrue("Failing: 0 | Crashing: 0" not in self.said
                                or ": Assertion Failed" in self.said, self.said)
        self.fails(BIN / "teeth_unit", "--color=never", "--verbose", "--filter=fail/*")
        self.passes(BIN / "teeth_unit", "--color=never", "--verbose", "--filter=pass/*")
        # ctest searches for these words, and for those of .fini: see test_units_without_a_test() in
        # teeth_listed.py.
        self.passes(BIN / "teeth_unit", "--color=never", "--verbose", "--filter=skip/*")
        self.assertIn("[SKIP]", self.said)
        self.passes(BIN / "teeth_unit", "--color=never", "--verbose", "--filter=nothing/*")
        self.assertIn("Tested: 0 ", self.said)

    def test_ours(self):
        self.fails(BIN / "teeth_tsan", with_status=1)
        self.assertEqual(set(re.findall(r"^\[FAIL\] fail\w*::(\w+)", self.said, re.M)), WAYS)
        self.assertNotIn("[FAIL] pass", self.said)
        self.assertIn("[SKIP] skip::said", self.said)


class Fuzz(Teeth):
    def test_replay(self):
        folder = self.write("corpus/good", "good").parent
        self.passes(BIN / "teeth_replay", folder)
        bad = self.write("corpus/bad", "bad")
        self.assertNotEqual(self.status(BIN / "teeth_replay", folder), 0)
        bad.unlink()
        (folder / "unreadable").mkdir()
        self.fails(BIN / "teeth_replay", folder)
        (self.tmp / "empty").mkdir()
        self.fails(BIN / "teeth_replay", self.tmp / "empty")
        self.fails(BIN / "teeth_replay", self.tmp / "none")


class Model(Teeth):
    def test_models(self):
        good = self.write("good.pml", GOOD)
        self.passes(TEST / "model/run.sh", good)
        for name, text in MODELS.items():
            with self.subTest(name):
                self.fails(TEST / "model/run.sh", self.write(f"{name}.pml", text), says="FAIL")
        counts = self.write("counts", "")
        for models in (("deadlock", "good"), ("good", "deadlock")):
            self.fails(TEST / "model/run.sh", *(self.tmp / f"{name}.pml" for name in models),
                       RSOCK_COUNTS=counts)
        self.assertEqual(sorted(counts.read_text(encoding="utf-8").splitlines()),
                         ["0 1", "0 1", "1 0", "1 0"])
        self.fails(TEST / "model/run.sh", self.tmp / "none.pml")


class Others(Teeth):
    def test_guard(self):
        for factor, passes in (1, True), (2, False), (0.1, False):
            script = self.write("count.py", GUARD.format(folder=str(TEST / "guard"), factor=factor))
            (self.passes if passes else self.fails)("/usr/bin/python3", "-B", script,
                                                    RSOCK_BUILD=self.tmp,
                                                    LIBRSOCK=BUILD / "lib/librsock.so")

    def test_dissector(self):
        self.fails("/usr/bin/python3", "-B", "-m", "unittest", "test_dissector",
                   cwd=TEST / "wireshark", PM_CODEC="/bin/false",
                   RSOCK_LUA=ROOT / "tools/wireshark/rsock_pm.lua",
                   RSOCK_CORPUS=TEST / "fuzz/corpus/pm_msg")


if __name__ == "__main__":
    unittest.main()
