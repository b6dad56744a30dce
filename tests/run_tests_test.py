"""How scripts/run_tests.py counts: programs that crash, and the one crash that is forgiven, with a ctest made for it."""

import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import run_tests  # noqa: E402
import sanitizers  # noqa: E402

# Every run of a program takes the next word of its line: what it does this time.
CTEST = """#!/usr/bin/env python3
import pathlib, sys
folder, arguments = pathlib.Path(__file__).parent, sys.argv[1:]
junit = pathlib.Path(arguments[arguments.index("--output-junit") + 1])
wanted = arguments[arguments.index("-R") + 1] if "-R" in arguments else ""
cases = {"pass": "", "exit": "", "fail": "<failure/>"}
lines = []
for program in sorted(folder.glob("*.plan")):
    if wanted and f"({program.stem})" not in wanted:
        continue
    words = program.read_text().split()
    program.write_text(" ".join(words[1:]))
    if words[0] in cases:
        (junit.parent / f"{program.stem}.xml").write_text(f'<a><testcase classname="C" name="n">{cases[words[0]]}</testcase></a>')
    lines.append(f'<testcase name="{program.stem}" status="{"run" if words[0] == "pass" else "fail"}"/>')
junit.write_text(f"<a>{''.join(lines)}</a>")
"""
TRACER_CRASH = """Tracer caught signal 11: addr=0x1 pc=0x2 sp=0x3
==7==LeakSanitizer has encountered a fatal error.
==7==HINT: For debugging, try setting environment variable LSAN_OPTIONS=verbosity=1:log_threads=1
"""
LEAK = "==7==ERROR: LeakSanitizer: detected memory leaks\nSUMMARY: AddressSanitizer: 7 byte(s) leaked in 1 allocation(s).\n"


class RunTestsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.reports = self.folder / "reports"
        self.reports.mkdir()
        ctest = self.folder / "ctest"
        ctest.write_text(CTEST)
        ctest.chmod(0o755)

    def count(self, report=None, **plans):
        """(passed, failed) of programs with these plans under a sanitizer that has left this report."""
        for name, words in plans.items():
            (self.folder / f"{name}.plan").write_text(words)
        if report:
            (self.reports / "report.7").write_text(report)
        asan = sanitizers.ALL[1]
        tally = run_tests.Tally()
        with mock.patch.dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}"), contextlib.redirect_stdout(io.StringIO()):
            run_tests.run_programs(self.folder, 1, tally, forgiven=lambda: asan.forgive_own_crashes(self.reports))
            tally.add(0, asan.num_findings(self.reports))
        return tally.passed, tally.failed

    def test_counts_cases_crashes_and_programs_that_fail_after_their_cases(self):
        self.assertEqual(self.count(a="pass", b="fail", c="crash", d="exit"), (2, 3))

    def test_a_crash_of_the_leak_sanitizer_itself_is_tried_again_once(self):
        self.assertEqual(self.count(TRACER_CRASH, a="pass", b="exit pass"), (2, 0))

    def test_what_fails_again_has_failed(self):
        self.assertEqual(self.count(TRACER_CRASH, a="pass", b="exit exit"), (2, 1))

    def test_nothing_is_tried_again_for_a_leak(self):
        self.assertEqual(self.count(LEAK, a="pass", b="exit pass"), (2, 2))

    def test_a_failed_case_and_a_crash_are_not_tried_again(self):
        self.assertEqual(self.count(TRACER_CRASH, a="fail pass", b="crash pass"), (0, 3))

    def test_a_leak_told_beside_a_crash_counts(self):
        self.assertEqual(self.count(TRACER_CRASH + LEAK, a="exit pass"), (1, 2))

    def test_files_that_do_not_run_under_sanitizers_exist(self):
        for sanitizer in sanitizers.ALL:
            self.assertEqual([name for name in sanitizer.left_out_python if not (ROOT / "tests" / f"{name}.py").exists()], [])

    def test_tests_of_scripts_drive_no_program(self):
        for name in sanitizers.OF_SCRIPTS:
            text = (ROOT / "tests" / f"{name}.py").read_text()
            drives = re.search(r"^from programs import .*\b(APP|BIN|TRAIN|ProgramTest|ImportTestCase)\b", text, re.M)
            self.assertFalse(drives, name)

    def test_a_short_set_names_what_is_built_and_what_runs(self):
        sanitizer = sanitizers.Sanitizer("asan", "words", 1, (), ("a_test", "b_test"), {"c_test": "slow"})
        self.assertEqual(sanitizer.targets(), ("sanitizer_canary", "a_test", "b_test"))
        self.assertEqual(sanitizer.programs(whole=False), ["-R", "^(a_test|b_test)$"])
        self.assertEqual(sanitizer.programs(whole=True), ["-E", "^(c_test)$"])
        printed = subprocess.run([sys.executable, ROOT / "scripts" / "sanitizers.py", "tsan"], capture_output=True, text=True, check=True)
        self.assertEqual(tuple(printed.stdout.split()), sanitizers.ALL[0].targets())

    def test_whole_goes_with_sanitizers_only(self):
        with mock.patch.object(sys, "argv", ["run_tests.py", "--whole"]), contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertRaises(SystemExit, run_tests.main)
        self.assertIn("--whole goes with --sanitizers only", said.getvalue())
        # The same of the script around it, which begins no build then.
        refused = subprocess.run([ROOT / "scripts" / "test", "--whole"], capture_output=True, text=True)
        self.assertEqual((refused.returncode, refused.stderr), (2, "usage: scripts/test [--sanitizers [--whole]]\n"))


if __name__ == "__main__":
    unittest.main()
