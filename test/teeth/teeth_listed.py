#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks the list of tests that ctest runs: it has every case of every script and program, and
their properties are as required."""
import ctypes
import json
import re
import unittest

from teeth import BUILD, ROOT, TEST, Teeth
from teeth_harnesses import LABELS, PYTHON, scripts

# Families of test/app that are built where libc has this function.
LIBC_HAS = {"pidfd": "pidfd_spawn"}


class Listed(Teeth):
    def setUp(self):
        super().setUp()
        self.passes("ctest", "--test-dir", BUILD, "--show-only=json-v1")
        tests = json.loads(self.said)["tests"]
        self.tests = {test["name"]: {one["name"]: one["value"] for one in test["properties"]}
                      for test in tests}
        self.commands = {test["name"]: test["command"] for test in tests}
        self.assertGreater(len(self.tests), 500)

    def test_python_cases(self):
        for path in scripts():
            label, family = path.stem.split("_", 1)
            self.passes(PYTHON, "-B", path, "--list")
            for line in self.said.splitlines():
                case = line.split()[0]
                name = f"{label}.{family}" + ("" if label == "rdma" else f".{case}")
                # A script of test/rdma is one test, or several with some of its cases each.
                parts = [words for test, words in self.commands.items()
                         if re.fullmatch(rf"rdma\.{family}\.\d+", test)]
                self.assertTrue(name in self.tests or sum(case in words for words in parts) == 1,
                                f"{name}: {case}")
        # A script is found by its name.
        for label in LABELS:
            for path in (TEST / label).glob("*.py"):
                if re.search(r"^@case\(", path.read_text(encoding="utf-8"), re.M):
                    self.assertTrue(path.name.startswith(f"{label}_"), path)

    def test_app_cases(self):
        for path in sorted((TEST / "app").glob("*.c")):
            family = path.stem.partition("_")[0]  # <family>.c, <family>_*.c
            if not hasattr(ctypes.CDLL(None), LIBC_HAS.get(family, "read")):
                self.assertFalse([name for name in self.tests if name.startswith(f"app_{family}.")])
                continue
            for case in re.findall(r"^CASE\((\w+),", path.read_text(encoding="utf-8"), re.M):
                for config in "", "@asleep", "@narrow":
                    self.assertIn(f"app_{family}.{case}{config}", self.tests)

    def test_unit_and_fuzz_sources(self):
        for folder in "unit", "fuzz":
            listed = (TEST / folder / "CMakeLists.txt").read_text(encoding="utf-8")
            for path in (TEST / folder).glob("*.c"):
                common = path.name in ("tsan_main.c", "replay.c")
                known = (f"unit_{path.stem.removeprefix('test_')}" in self.tests or
                         path.name in listed)
                self.assertTrue(common or known, path)
                if not common and folder == "unit":  # the runner's main() runs the tests
                    self.assertNotRegex(path.read_text(encoding="utf-8"), r"(?m)^int main\(")

    def test_units_without_a_test(self):
        units = [name for name in self.tests if name.startswith("unit_")]
        self.assertGreater(len(units), 80)
        for name in units:
            words = self.tests[name].get("FAIL_REGULAR_EXPRESSION", [])
            for said in "Tested: 0 | Passing: 0", "[SKIP] of::this", "a.c:1: Assertion Failed":
                self.assertTrue(any(re.search(word, said) for word in words), (name, words))

    def test_those_that_may_fail(self):
        """Only the cases of docs/gaps.md may fail."""
        gaps = (TEST / "app/gaps.cmake").read_text(encoding="utf-8")
        for name, properties in self.tests.items():
            if properties.get("WILL_FAIL"):
                self.assertRegex(gaps, rf"\b{re.escape(name.split('@')[0])}\b")
            self.assertFalse(properties.get("DISABLED"), name)
            self.assertNotIn("SKIP_RETURN_CODE", properties, name)
            self.assertNotIn("SKIP_REGULAR_EXPRESSION", properties, name)

    def test_labels(self):
        """Each test is in one suite of scripts/suites.sh, and each label of a suite has tests."""
        text = (ROOT / "scripts/suites.sh").read_text(encoding="utf-8")
        runs = [label for labels in re.findall(r'^\tctests "[^"]+" \d+ (\S+) ', text, re.M)
                for label in labels.split(",")]
        parts = int(re.search(r"^RDMA_SHARDS=(\d+)$", text, re.M).group(1))
        runs += [f"rdma-part-{number}" for number in range(1, parts + 1)]
        self.assertGreater(len(runs), 10)
        seen = set()
        for name, properties in self.tests.items():
            labels = set(properties.get("LABELS", [])) & set(runs)
            self.assertEqual(len(labels), 1, name)
            seen |= labels
        self.assertEqual(seen, set(runs))

    def test_times(self):
        """scripts/times.txt has a line for each suite, and no other line."""
        script = self.write("names",
                            'suite() { echo "$1"; }\nsuites_run() { :; }\nset -euo pipefail\nfor '
                            'file in scripts/suites.sh scripts/check.sh; do\n'
                            "\t. <(sed '/^\\. scripts/d; /^cd /d' $file)\ndone\n"
                            'suites_prepare; suites_short; suites_long 20; suites_long 60; '
                            'suites_containers; suites_clusters; suites_memory; '
                            'suites_next trixie; suites_next sid; suites_arm64; '
                            'suites_longest; for part in '
                            '$(rdma_shards); do suites_rdma "$part"; done\n')
        self.passes("bash", script, cwd=ROOT)
        names = set(self.said.splitlines())
        lines = (ROOT / "scripts/times.txt").read_text(encoding="utf-8").splitlines()
        times = {line.split(None, 1)[1]: int(line.split()[0]) for line in lines}
        self.assertEqual(sorted(names), sorted(times))

    def test_left_out_of_arm64(self):
        """test/arm64/left-out.txt names tests that exist."""
        lines = (TEST / "arm64/left-out.txt").read_text(encoding="utf-8").splitlines()
        named = [line.split()[0] for line in lines if line.partition("#")[0].strip()]
        self.assertGreater(len(named), 5)
        self.assertEqual([name for name in named if name not in self.tests], [])

    def test_security_page(self):
        """Each row of docs/security.md names a test that exists, or says what is open."""
        rows = re.findall(r"^\| (?!by what|---)(.*) \|(.*)\|$",
                          (ROOT / "docs/security.md").read_text(encoding="utf-8"), re.M)
        self.assertGreater(len(rows), 20)
        for row, tests in rows:
            named = re.findall(r"`([a-z_0-9.]+)`", tests)
            self.assertTrue(named or "**open**" in row or tests.strip() == "none", row)
            for name in named:
                self.assertTrue(any(re.match(rf"{re.escape(name)}($|[.@])", test)
                                    for test in self.tests), name)

    def test_mutants(self):
        """Each row of scripts/mutants.txt changes its file, and names a test that exists."""
        lines = (ROOT / "scripts/mutants.txt").read_text(encoding="utf-8").splitlines()
        rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
        self.assertGreater(len(rows), 20)
        for name, expression, test, what in rows:
            self.assertIn(test, self.tests, what)
            self.passes("sed", "-E", expression, ROOT / name)
            self.assertFalse(self.said == (ROOT / name).read_text(encoding="utf-8"),
                             f"{name}: {what}: nothing changes")


if __name__ == "__main__":
    unittest.main()
