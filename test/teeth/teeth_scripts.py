#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks the scripts of make test, of .ci/run and of the builds: what fails in them is reported,
and ends them with a failure."""
import json
import shutil
import subprocess
import unittest

from teeth import BUILD, ROOT, Teeth

CTEST = {
    "fails": 'add_test(a "/bin/false")\n',
    "is not there": 'add_test(a "/bin/no-such-program")\n',
    "is skipped": 'add_test(a "/bin/sh" "-c" "exit 7")\nset_tests_properties(a PROPERTIES '
                  'SKIP_RETURN_CODE 7)\n',
    "is disabled": 'add_test(a "/bin/true")\nset_tests_properties(a PROPERTIES DISABLED TRUE)\n',
    "is not one": "",
    "hangs": 'add_test(a "/bin/sleep" "60")\nset_tests_properties(a PROPERTIES TIMEOUT 1)\n',
}


class Scripts(Teeth):
    def test_hardening(self):
        """A program and a source that are not hardened, one flag missing at a time; all else is
        linked to the build."""
        program = self.write("a.c", '#include <stdio.h>\n#include <string.h>\nint main(int c, char '
                                    '**v)\n{\n\tchar b[64];\n\n'
                             '\tstrcpy(b, v[c - 1]);\n\treturn puts(b);\n}\n')
        flags = {"-fstack-protector-strong": "no stack protector",
                 "-D_FORTIFY_SOURCE=2": "no fortified call", "-pie": "no PIE",
                 "-Wl,-z,relro": "no RELRO", "-Wl,-z,now": "binds lazily",
                 "-Wl,-z,noexecstack": "an executable stack"}
        unlike = {"-Wl,-z,relro": "-Wl,-z,norelro", "-Wl,-z,now": "-Wl,-z,lazy",
                  "-Wl,-z,noexecstack": "-Wl,-z,execstack",
                  "-pie": "-no-pie"}
        for left_out, says in {None: "", **flags}.items():
            build = self.tmp / "build"
            shutil.rmtree(build, ignore_errors=True)
            (build / "bin").mkdir(parents=True)
            (build / "lib").symlink_to(BUILD / "lib")
            (build / "compile_commands.json").symlink_to(BUILD / "compile_commands.json")
            for name in "rsockd", "rsperf":
                (build / "bin" / name).symlink_to(BUILD / "bin" / name)
            words = [unlike.get(flag, "-w") if flag == left_out else flag for flag in flags]
            subprocess.run(["gcc", "-O2", "-w", "-fPIE", "-U_FORTIFY_SOURCE", *words, program, "-o",
                            build / "bin/rsock"], check=True)
            (self.fails if left_out else self.passes)(ROOT / "scripts/check-hardening.sh", build,
                                                      **({"says": f"rsock: {says}"} if left_out
                                                         else {}))
        commands = json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8"))
        for row in commands:
            if row["file"].endswith("/mapper/peer/tuple.c"):
                row["command"] = row["command"].replace("-fstack-clash-protection", "")
        (build / "compile_commands.json").unlink()
        (build / "compile_commands.json").write_text(json.dumps(commands), encoding="utf-8")
        self.fails(ROOT / "scripts/check-hardening.sh", build, says="mapper/peer/tuple.c")

    def test_tidy(self):
        source = self.write("a.c", "#include <stdlib.h>\nint f(void);\nint f(void)\n{\n\tint *p = "
                                   "0;\n\n\treturn *p;\n}\n")
        self.write("compile_commands.json",
                   json.dumps([{"directory": str(self.tmp), "file": str(source),
                                                         "command": f"clang -c {source}"}]))
        shutil.copy(ROOT / ".clang-tidy", self.tmp)
        self.fails(ROOT / "scripts/check-tidy.sh", self.tmp, source, says="null pointer")

    def test_build(self):
        """A compiler warning is an error."""
        tree = self.copy()
        with open(tree / "mapper/stats/reason.c", "a", encoding="utf-8") as file:
            file.write("static int not_used;\n")
        self.fails(tree / "scripts/build.sh", "build", "-DCMAKE_C_COMPILER=gcc",
                   TARGET="rsk_mapper_stats", says="not_used")

    def test_ctest(self):
        for what, text in CTEST.items():
            with self.subTest(what):
                self.write("CTestTestfile.cmake", text)
                self.fails(ROOT / "scripts/ctest.sh", self.tmp)
                self.write("CTestTestfile.cmake", text + 'add_test(b "/bin/true")\n')
                if text:
                    self.fails(ROOT / "scripts/ctest.sh", self.tmp)
        self.write("CTestTestfile.cmake", 'add_test(b "/bin/true")\n')
        self.passes(ROOT / "scripts/ctest.sh", self.tmp)
        self.fails(ROOT / "scripts/ctest.sh", self.tmp, "-R", "no_such_test")

    def test_said_again(self):
        """The names of failed tests, and the end of their output, come after all other output; with
        a shared file, for several suites together."""
        self.write("CTestTestfile.cmake",
                   'add_test(good "/bin/sh" "-c" "seq 900 999; echo unheard")\n'
                   'add_test(bad "/bin/sh" "-c" "echo first; seq 100 199; echo why it failed; '
                   'echo the reason; exit 3")\nadd_test(good2 "/bin/true")\n')
        again = self.tmp / "again"
        again.touch()
        for alone in True, False:
            self.fails(ROOT / "scripts/ctest.sh", self.tmp, "-j", 2, with_status=8,
                       **({} if alone else {"RSOCK_FAILED": again}))
            end = self.said.split("==== what failed")[1]
            self.assertIn("\n---- bad ", end)
            self.assertTrue(end.endswith("\n199\nwhy it failed\nthe reason\n"), end)
            self.assertFalse("first" in end or "good" in end or "unheard" in end, end)
        first = self.suites(f"suite tests {ROOT}/scripts/ctest.sh {self.tmp}; suite others true",
                            "first")
        self.fails("bash", first,
                   says="\nthe reason\n---- tests: FAILED (status 8)\n\n      passed ")
        self.assertEqual(again.read_text(encoding="utf-8").count("the reason"), 1)
        self.assertTrue(self.said.endswith(")\n\nfailed: bad (Failed): why it failed\n3 passed, "
                                           "1 failed\n"), self.said)
        second = self.suites("suite checks false", "second")
        both = self.write("both", f"bash {first}; bash {second}\n")
        again.write_text("", encoding="utf-8")
        report = self.write("report", "")
        self.fails("bash", both, RSOCK_FAILED=again, RSOCK_REPORT=report)
        end = self.said.rsplit("==== what failed", 1)[1]
        self.assertIn("\nthe reason\n---- tests: FAILED (status 8)\n---- checks: FAILED (status "
                      "1)\n\n      passed ", end)
        self.assertTrue(end.endswith("\n3 passed, 2 failed\n"), end)

    def test_told_when_ended(self):
        """A suite that is stopped at its time limit reports what had failed by then."""
        self.write("CTestTestfile.cmake", 'add_test(bad "/bin/sh" "-c" "echo the reason; exit 3")\n'
                                          'add_test(slow "/bin/sleep" "60")\n')
        self.fails("timeout", 5, ROOT / "scripts/ctest.sh", self.tmp, with_status=124)
        self.assertIn("\nthe reason\n", self.said.split("==== what failed")[1])

    def suites(self, text, name="suites"):
        """Writes a script that runs those suites."""
        return self.write(name, f"set -euo pipefail\ncd {self.tmp}\n. {ROOT}/scripts/steps.sh\n"
                                f"{text}\nsuites_run\n")

    def test_suites(self):
        """A suite that fails, whatever it counted, one that counted failures, or one that ran
        nothing makes the whole run fail."""
        counts = 'suite b bash -c "echo %s >>\\$RSOCK_COUNTS; exit %d"'
        for text, says in (
                ("suite a true", None), ("suite a true; " + counts % ("7 0", 0), None),
                ("suite a true; suite b false; suite c true", "\n2 passed, 1 failed\n"),
                ("", "\n0 passed, 0 failed\n"),
                (counts % ("7 0", 1), "\n7 passed, 1 failed\n"),
                (counts % ("7 2", 1), "\n7 passed, 2 failed\n"),
                (counts % ("7 2", 0), "\n7 passed, 2 failed\n"),
                ("suite a true; " + counts % ("0 0", 0), "b (ran nothing)"),
                ("suite a no-such-command", "\n0 passed, 1 failed\n"),
                ("suite a exit 3", "a (status 3)"),
                ("suite a timeout 1 sleep 20", "a (status 124)")):
            with self.subTest(text):
                script = self.suites(text)
                if says:
                    self.fails("bash", script, says=says)
                else:
                    self.passes("bash", script)

    def test_how_long(self):
        """A suite's expected time is that of the last run that passed here, else the tree's."""
        self.write("scripts/times.txt", "  100  a\n   20  b c\n")
        self.write("build/times.txt", "   70  a\n    5  of another script\n")
        script = self.suites('suite a true; suite "b c" false; suite new true')
        self.fails("bash", script)
        for says in ("1 of 3: a (some 1:10; 0:00 so far, some 1:30 to go)",
                     "2 of 3: b c (some 0:20; 0:00 so far, some 0:20 to go)",
                     "3 of 3: new (never timed; 0:00 so far, some 0:00 to go)"):
            self.assertIn(says, self.said)
        self.assertEqual((self.tmp / "build/times.txt").read_text(encoding="utf-8"),
                         "    5  of another script\n    0  a\n    0  new\n")

    def test_ctest_counts(self):
        self.write("CTestTestfile.cmake", 'add_test(a "/bin/true")\nadd_test(b "/bin/true")\n'
                   + CTEST["fails"].replace("(a", "(c")
                   + CTEST["is skipped"].replace("(a", "(d").replace("tests_properties(a",
                                                                     "tests_properties(d")
                   + 'add_test(e "/usr/bin/env")\n')
        counts = self.write("counts", "")
        self.fails(ROOT / "scripts/ctest.sh", self.tmp, "-V", RSOCK_COUNTS=counts)
        self.assertEqual(counts.read_text(encoding="utf-8"), "3 2\n")
        self.assertNotIn("RSOCK_COUNTS", self.said)

    def test_submission(self):
        """.ci/run fails if the README's command, the rest of the tests or the checks fail, and if
        the README names no command."""
        shutil.copytree(ROOT / ".ci", self.tmp / ".ci")
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        for test, rest, check in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)):
            self.write("README.md", readme)
            self.write("Makefile",
                       f"test:\n\t@echo first; exit {test}\ncheck:\n\t@echo third; exit {check}\n")
            self.write("scripts/test.sh", f'[ "$*" = --ci ] && echo second && exit {rest}\n',
                       mode=0o755)
            (self.fails if test or rest or check else self.passes)(self.tmp / ".ci/run")
            self.assertEqual([line for line in self.said.splitlines() if "make" not in line],
                             ["first", "second", "third"])
        self.write("README.md", readme.replace("make test ", "make tests "))
        self.fails(self.tmp / ".ci/run", says="names no test command")

    def test_which_part(self):
        """Of test/rdma .ci/run takes a part, which the commit names: the first ones in turn."""
        tree = self.tmp / "tree"
        tree.mkdir()
        script = self.write("part", f"set -euo pipefail\n. {ROOT}/scripts/suites.sh\n"
                                    'echo "$RDMA_GATED"\nrdma_shard_of_commit\n')
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
        seen = []
        for _ in range(16):  # at least twice around
            subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "a"], cwd=tree,
                           check=True)
            self.passes("bash", script, cwd=tree)
            of, part = map(int, self.said.split())
            seen.append(part)
        self.assertLessEqual(2 * of, len(seen))
        self.assertEqual(seen[:of], seen[of:2 * of])
        self.assertEqual(sorted(seen[:of]), list(range(1, of + 1)))


if __name__ == "__main__":
    unittest.main()
