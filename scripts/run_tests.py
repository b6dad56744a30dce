#!/usr/bin/env python3
"""Runs every test of a build folder and the checks of the source tree; ends with the line `N passed, N failed`.

Counted one by one: GoogleTest cases (from the XML that each test program writes), Python unittest cases, the format check
and the layer check. A test program that crashes or times out counts as one failure more.

With --sanitizers the tests run in build/tsan and build/asan instead, and every report of a sanitizer counts as a failure.
What is left out there, and by how much the random tests are shortened, is printed.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree

import sanitizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE_SUFFIXES = (".h", ".cc")


class Tally:
    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.skipped = 0

    def add(self, passed, failed, skipped=0):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped


def tracked_sources():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.splitlines() if name.endswith(SOURCE_SUFFIXES) and (ROOT / name).exists()]


def count_xml(path):
    """Passed, failed and skipped cases of one GoogleTest report."""
    passed = failed = skipped = 0
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None:
            failed += 1
            print(f"FAILED {case.get('classname')}.{case.get('name')}")
        elif case.find("skipped") is not None or case.get("result") == "skipped":
            skipped += 1
            print(f"SKIPPED {case.get('classname')}.{case.get('name')}")
        else:
            passed += 1
    return passed, failed, skipped


def run_programs(build, jobs, tally, prefix=(), left_out=()):
    results = build / "test-results"
    results.mkdir(parents=True, exist_ok=True)
    for old in results.glob("*.xml"):
        old.unlink()
    command = [*prefix, "ctest", "--test-dir", str(build), "--output-on-failure", "-j", str(jobs),
               "--output-junit", str(results / "ctest.junit")]
    if left_out:
        command += ["-E", f"^({'|'.join(left_out)})$"]
    ctest = subprocess.run(command)
    failed_cases = 0
    for report in sorted(results.glob("*.xml")):
        counts = count_xml(report)
        failed_cases += counts[1]
        tally.add(*counts)
    # A crash or a time-out leaves no report of its cases: whatever CTest saw fail without one counts.
    programs = xml.etree.ElementTree.parse(results / "ctest.junit").getroot()
    for program in programs.iter("testcase"):
        if program.get("status") == "run":
            if not (results / f"{program.get('name')}.xml").exists():
                tally.add(1, 0)
            continue
        print(f"FAILED program {program.get('name')} ({program.get('status')})")
        if not (results / f"{program.get('name')}.xml").exists() or failed_cases == 0:
            tally.add(0, 1)
    if ctest.returncode != 0 and tally.failed == 0:
        tally.add(0, 1)


def run_python(build, tally):
    os.environ["SHARDSCOPE_BIN"] = str(build / "bin")
    suite = unittest.defaultTestLoader.discover(str(ROOT / "tests"), pattern="*_test.py", top_level_dir=str(ROOT / "tests"))
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    failed = len(result.failures) + len(result.errors)
    tally.add(result.testsRun - failed - len(result.skipped), failed, len(result.skipped))


def run_check(name, command, tally):
    done = subprocess.run(command, cwd=ROOT)
    print(f"{name}: {'ok' if done.returncode == 0 else 'FAILED'}")
    tally.add(int(done.returncode == 0), int(done.returncode != 0))


def run_sanitizer(sanitizer, jobs, tally):
    """The tests of one build with sanitizers. Python tests drive the trainer, so they need a build that has it."""
    build = ROOT / "build" / sanitizer.preset
    release = ROOT / "build" / "release"
    reports = build / "sanitizer-reports"
    print(f"--- {sanitizer.words} ---", flush=True)
    prefix = sanitizers.fixed_addresses()
    sanitizer.start(reports)
    missed = sanitizer.missed_defects(build, reports, prefix)
    print(f"defects made on purpose and not found: {', '.join(missed) or 'none'} (of {', '.join(sanitizer.defects)})", flush=True)
    tally.add(len(sanitizer.defects) - len(missed), len(missed))
    run_programs(build, jobs, tally, prefix, sanitizer.left_out)
    if (build / "bin" / "shardscope-train").exists():
        run_python(build, tally)
    tally.add(0, sanitizer.num_findings(reports))
    sanitizer.say_what_is_left_out(build, release if release.exists() else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--sanitizers", action="store_true", help="build/tsan and build/asan instead of --build")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    began = time.monotonic()
    tally = Tally()
    if options.sanitizers:
        for sanitizer in sanitizers.ALL:
            run_sanitizer(sanitizer, options.jobs, tally)
    else:
        run_check("format", ["clang-format-14", "--dry-run", "-Werror", *tracked_sources()], tally)
        run_check("layers", [sys.executable, "scripts/check_layers.py"], tally)
        run_programs(options.build.resolve(), options.jobs, tally)
        run_python(options.build.resolve(), tally)
    print(f"tests and checks took {time.monotonic() - began:.0f} s")
    skipped = f", {tally.skipped} skipped" if tally.skipped else ""
    print(f"{tally.passed} passed, {tally.failed} failed{skipped}")
    return 1 if tally.failed or tally.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
