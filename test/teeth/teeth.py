# SPDX-License-Identifier: BSD-2-Clause
"""Shared by the teeth_*.py checks of the harnesses: starts something that must fail, and requires
that its exit status says so."""
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("RSOCK_BUILD", ROOT / "build")).resolve()
TEST = ROOT / "test"
# What fails here on purpose must not count as a failure of the enclosing test run.
OURS = {key: value for key, value in os.environ.items()
        if key not in ("RSOCK_FAILED", "RSOCK_REPORT", "RSOCK_COUNTS")}


class Teeth(unittest.TestCase):
    """Gets the exit status of a command, and its output, which is shown if the check fails."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rsock-teeth-")
        self.addCleanup(folder.cleanup)
        self.tmp = Path(folder.name)

    def status(self, *command, cwd=None, seconds=120, **env):
        done = subprocess.run([*map(str, command)], cwd=cwd or self.tmp, timeout=seconds,
                              stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", check=False,
                              env={**OURS, **{key: str(value) for key, value in env.items()}})
        self.said = done.stdout
        return done.returncode

    def fails(self, *command, with_status=None, says="", **options):
        """The command must end with a status other than 0 (@with_status: with this one), and print
        @says."""
        status = self.status(*command, **options)
        what = f"{' '.join(map(str, command))}: status {status}\n{self.said[-3000:]}"
        self.assertTrue(status == with_status if with_status is not None else status > 0, what)
        self.assertIn(says, self.said, what)

    def passes(self, *command, **options):
        """The command must pass. Otherwise one that always fails would satisfy the checks."""
        self.assertEqual(self.status(*command, **options), 0,
                         f"{' '.join(map(str, command))}\n{self.said[-3000:]}")

    def write(self, name, text, mode=0o644):
        path = self.tmp / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path

    def copy(self):
        """Copies the tracked tree to self.tmp, as a git repository. Returns its folder."""
        tree = self.tmp / "tree"
        names = subprocess.run([ROOT / "scripts/tracked.sh"], check=True, capture_output=True,
                               text=True).stdout.splitlines()
        for name in names:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
        for link in [*ROOT.glob("bench/lib"), *ROOT.glob("test/*/lib")]:
            shutil.copy(link, tree / link.relative_to(ROOT), follow_symlinks=False)
        shutil.copytree(ROOT / "third_party", tree / "third_party", dirs_exist_ok=True)
        for words in (["init", "-q"], ["add", "-A"]):
            subprocess.run(["git", *words], cwd=tree, check=True)
        return tree
