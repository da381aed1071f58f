#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks the checks of make check, in a copy of the tree with one mistake in it."""
import shutil
import unittest

from teeth import BUILD, ROOT, Teeth

# Script and its arguments, a file, what is appended to it (or (old, new)), a part of the message.
WRONG = [
    ("check-format.sh", [], "fabric/port_table.c", "int  a ;\n", "port_table.c"),
    ("check-includes.py", [], "fabric/port_table.c", '#include "stream.h"\n', "must not see"),
    ("check-includes.py", [], "fabric/port_table.c", "#include <infiniband/verbs.h>\n", "ibverbs"),
    ("check-calls.py", [BUILD], "cmake/floors.txt",
     ("stream/ready:    stream/remote", "stream/ready:    stream/pair"), "is not above"),
    ("check-calls.py", [BUILD], "scripts/check-calls.py",
     ("CIRCLE, FOLDER = 4, 25", "CIRCLE, FOLDER = 3, 25"), "in a circle"),
    ("check-calls.py", [BUILD], "scripts/check-calls.py",
     ("CIRCLE, FOLDER = 4, 25", "CIRCLE, FOLDER = 4, 17"), "are the most"),
    ("check-callers.py", [BUILD], "fabric/reserve.c", ("rsk_locked_overdue(", "rsk_unlocked("),
     "rsk_locked_overdue: nothing in production calls it"),
    ("check-callers.py", [BUILD], "stream/remote/remote_rings.c", ("->reg_ring(", "->regs("),
     "rsk_mr_ring: nothing in production calls it"),
    ("check-callers.py", [BUILD], "fabric/reserve.h", "static inline void rsk_one(void)\n{\n}\n",
     "rsk_one: nothing in production calls it"),
    ("check-callers.py", [BUILD], "scripts/test-only.txt", "rsk_ring_put_len  none\n",
     "not needed any more"),
    ("check-callers.py", [BUILD], "fabric/reserve.c", ("void rsk_reserve_join(", "void rsk_join("),
     "does not find it in the text"),
    ("check-calls.py", [BUILD], "cmake/floors.txt",
     ("mechanisms/verbs:   mechanisms/locked fabric/verbs", "mechanisms/verbs:   fabric/verbs"),
     "is not above"),
    ("check-includes.py", [], "fabric/port_table.c", '#include "locked_kinds.h"\n',
     "must not see mechanisms/locked"),
    ("check-alone.sh", [], "preload/CMakeLists.txt",
     "find_package(PkgConfig REQUIRED)\npkg_check_modules(M REQUIRED libmnl)\n", "libmnl"),
    ("check-alone.sh", [], "CMakePresets.json", "}\n", "CMakePresets"),
    ("check-tree.py", [], "fabric/port_table.c", "int a; \n", "white space"),
    ("check-tree.py", [], "fabric/port_table.c", "//\n" * 700, "lines"),
    ("check-tree.py", [], "fabric/port_table.c", "// too" + " wide" * 20 + "\n", "106 columns"),
    ("check-tree.py", [], "mapper/CMakeLists.txt", "# too" + " wide" * 20 + "\n", "105 columns"),
    ("check-tree.py", [], "docs/gaps.md", "too" + " wide" * 20 + " |\n", "105 columns"),
    ("check-tree.py", [], "CMakePresets.json", '"too": "' + "wide " * 20 + '" }\n',
     "111 columns"),
    ("check-tree.py", [], "README.md", "/" + "root/x\n", "one machine"),
    ("check-tree.py", [], "README.md", "one more\n" * 120, "lines"),
    ("check-tree.py", [], "docs/gaps.md", "[page](no-such-page.md)\n", "leads nowhere"),
    ("check-tree.py", [], "docs/architecture.md", "`no_such_file.c`\n", "nowhere in the tree"),
    ("check-tree.py", [], "docs/drawings/send.txt", "S rsk_no_such_function() | words\n",
     "nowhere in the tree"),
    ("check-knobs.py", [], "stream/link/knobs.c",
     ('getenv("RSOCK_SPIN_US")', 'getenv("RSOCK_NEW")'), "RSOCK_NEW"),
    ("check-conformance.py", [], "fabric/reserve.c", ("rsk_reserve_next", "rsk_reserve_other"),
     "reserve.c:rsk_reserve_next: the file does not define that function"),
    ("check-conformance.py", [], "docs/conformance.md",
     ("`stream/ring/ring.c:finish_slot`", "`stream/ring/rings.c:finish_slot`"),
     "rings.c: there is no such file"),
    ("check-conformance.py", [], "mapper/rsockd/agent/map.c",
     ("rsk_agent_may_ask(", "rsk_agent_asks("), "rsk_agent_may_ask: nothing in production"),
    ("check-conformance.py", [], "docs/conformance.md",
     ("`test/net/net_rdma.py:links_that_nobody_announced` | done |",
      "`test/net/net_rdma.py:links_that_nobody_announced` | test only: a word |"),
     "rsk_pmsp_link_named: it has a caller"),
    ("check-conformance.py", [], "docs/conformance.md",
     ("`fabric/locked.c:plan_content`", "`mechanisms/locked/locked_kinds.c:plan_lock`"),
     "it is not part of production"),
    ("check-conformance.py", [], "test/unit/test_pmsp.c",
     ("Test(pmsp, denies)", "Test(pmsp, refuses)"), "denies: the file has no such case"),
    ("check-conformance.py", [], "test/net/net_policy.py",
     ("@case(timeout=60)\ndef never_more_than_there_is", "def never_more_than_there_is"),
     "never_more_than_there_is: the file has no such case"),
    ("check-conformance.py", [], "docs/conformance.md",
     ("`test/unit/test_ring.c:", "`test/unit/test_rings.c:"),
     "test_rings.c: there is no such file"),
    ("check-conformance.py", [], "docs/conformance.md", ("| HS-3 |", "| HS-2 |"),
     "HS-2: is there 2 times"),
    ("check-conformance.py", [], "docs/conformance.md", ("| HS-3 |", "| HS-99 |"),
     "HS-3: is missing"),
    ("check-conformance.py", [], "docs/conformance.md",
     ("`test/unit/test_txn_tags.c:a_send_that_finds_no_room_goes_on`", "none"),
     "it is done, and names no test"),
    ("check-conformance.py", [], "docs/conformance.md", ("| done |\n", "| planned |\n"),
     "the state is"),
    ("check-conformance.py", [], "docs/conformance.md", "| HS-26 | one more | none | done |\n",
     "no row of five columns"),
    ("check-symbols.py", [BUILD], "preload/symbols.def",
     ("RSK_VAR(int, prctl,", "RSK_VAR(int, no_such_symbol,"), "no_such_symbol"),
    ("check-symbols.py", [BUILD], "scripts/stray-calls.txt", "stream/tx.c  free  # none\n",
     "not needed any more"),
    ("gen-docs.sh", ["--check"], "docs/reasons.md", "| a | b | c |\n", "reasons.md"),
    ("gen-docs.sh", ["--check"], "docs/gains.svg", "<!-- -->\n", "gains.svg"),
    ("gen-docs.sh", ["--check"], "docs/drawings/floors.txt", "floor one more | a | b\n",
     "floors.svg"),
    ("gen-docs.sh", ["--check"], "docs/performance.md",
     ("| iperf3, 1 stream | **", "| iperf3, 1 stream | **9"), "iperf3"),
    ("check-words.py", [], "stream/ring/ring.c", "/* the compan" "ion */\n", "TCP socket"),
    ("check-shell.sh", [], "scripts/fuzz.sh", "echo $1\n", "SC2086"),
    ("check-python.sh", [], "scripts/check-tree.py", "def f(:\n", "SyntaxError"),
    ("check-python.sh", [], "scripts/check-tree.py", "x = '\\d'\n", "invalid escape"),
]


class Checks(Teeth):
    def test_checks(self):
        tree = self.copy()
        for script, arguments, name, wrong, says in WRONG:
            with self.subTest(f"{script}: {says}"):
                path = tree / name
                right = path.read_text(encoding="utf-8")
                path.write_text(right.replace(*wrong) if isinstance(wrong, tuple)
                                else right + wrong, encoding="utf-8")
                self.assertNotEqual(path.read_text(encoding="utf-8"), right)
                self.fails(tree / "scripts" / script, *arguments, says=says)
                path.write_text(right, encoding="utf-8")

    def test_checks_of_nothing(self):
        """A check must fail where git names no files, since it has checked nothing."""
        tree = self.tmp / "tree"
        shutil.copytree(ROOT / "scripts", tree / "scripts",
                        ignore=shutil.ignore_patterns("__pycache__"))
        for script in ("check-format.sh", "check-includes.py", "check-tree.py", "check-shell.sh",
                       "check-python.sh", "check-words.py"):
            with self.subTest(script):
                self.fails(tree / "scripts" / script, GIT_CEILING_DIRECTORIES=self.tmp)


if __name__ == "__main__":
    unittest.main()
