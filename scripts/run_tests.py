#!/usr/bin/env python3
"""Runs every test of a build folder and the checks of the source tree; ends with the line `N passed, N failed`.

Counted one by one: GoogleTest cases (from the XML that each test program writes), Python unittest cases, the format check
and the layer check. A test program that crashes or times out counts as one failure more.

With --sanitizers the tests run in build/tsan and build/asan instead, and every report of a sanitizer counts as a failure.
A short set runs there, with --whole nearly all; what is left out, and by how much the random tests are shortened, is printed.
"""

import argparse
import concurrent.futures.process
import contextlib
import io
import multiprocessing
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


def run_ctest(build, jobs, prefix, choice):
    """How each program of that choice ended: {name: status}, "run" where it passed; its cases are in test-results/<name>.xml."""
    junit = build / "test-results" / "ctest.junit"
    subprocess.run([*prefix, "ctest", "--test-dir", str(build), "--output-on-failure", "-j", str(jobs), "--output-junit", str(junit), *choice])
    programs = xml.etree.ElementTree.parse(junit).getroot().iter("testcase")
    return {program.get("name"): program.get("status") for program in programs}


def run_programs(build, jobs, tally, prefix=(), choice=(), forgiven=lambda: 0):
    """`choice` are CTest's arguments that choose programs. `forgiven` is asked once if programs failed all of whose cases passed: above 0, they run a second time, which counts."""
    results = build / "test-results"
    results.mkdir(parents=True, exist_ok=True)
    for old in results.glob("*.xml"):
        old.unlink()
    statuses = run_ctest(build, jobs, prefix, choice)
    counts = {report.stem: count_xml(report) for report in sorted(results.glob("*.xml"))}
    again = [name for name, status in statuses.items() if status != "run" and name in counts and counts[name][1] == 0]
    if again and forgiven() > 0:
        print(f"a second time: {', '.join(again)}", flush=True)
        statuses.update(run_ctest(build, jobs, prefix, ["-R", f"^({'|'.join(again)})$"]))
        counts.update({name: count_xml(results / f"{name}.xml") for name in again})
    for cases in counts.values():
        tally.add(*cases)
    # A crash or a time-out leaves no report of its cases: whatever CTest saw fail without a failed case counts.
    for name, status in statuses.items():
        passed = status == "run"
        if not passed:
            print(f"FAILED program {name} ({status})")
        if name not in counts:
            tally.add(int(passed), int(not passed))
        elif not passed and counts[name][1] == 0:
            tally.add(0, 1)
    if not statuses:
        tally.add(0, 1)


def run_module(name):
    """One file of Python tests, in a process of its own: how many ran, failed and were skipped, and what it printed."""
    sys.path.insert(0, str(ROOT / "tests"))
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed):
        result = unittest.TextTestRunner(verbosity=1).run(unittest.defaultTestLoader.loadTestsFromName(name))
    return result.testsRun, len(result.failures) + len(result.errors), len(result.skipped), printed.getvalue()


def run_python(build, jobs, tally, left_out=()):
    os.environ["SHARDSCOPE_BIN"] = str(build / "bin")
    # The largest first, so that no long one is left for the end. tests/ui is no package: its files are programs of CTest.
    paths = sorted([*ROOT.glob("tests/*_test.py"), *ROOT.glob("tests/faults/*_test.py")], key=lambda path: -path.stat().st_size)
    names = [".".join(path.relative_to(ROOT / "tests").with_suffix("").parts) for path in paths]
    names = [name for name in names if name not in left_out]
    with concurrent.futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        running = {pool.submit(run_module, name): name for name in names}
        for done in concurrent.futures.as_completed(running):
            try:
                ran, failed, skipped, printed = done.result()
            except concurrent.futures.process.BrokenProcessPool:
                ran, failed, skipped, printed = 1, 1, 0, "its process ended before its tests did"
            print(f"{running[done]}: {printed}", flush=True)
            tally.add(ran - failed - skipped, failed, skipped)


def run_check(name, command, tally):
    done = subprocess.run(command, cwd=ROOT)
    print(f"{name}: {'ok' if done.returncode == 0 else 'FAILED'}")
    tally.add(int(done.returncode == 0), int(done.returncode != 0))


def run_sanitizer(sanitizer, jobs, tally, whole):
    """The tests of one build with sanitizers. Python tests drive the trainer, so they need a build that has it, and are of no short set."""
    build = ROOT / "build" / sanitizer.preset
    release = ROOT / "build" / "release"
    reports = build / "sanitizer-reports"
    print(f"--- {sanitizer.words} ---", flush=True)
    prefix = sanitizers.fixed_addresses()
    sanitizer.start(reports)
    missed = sanitizer.missed_defects(build, reports, prefix)
    print(f"defects made on purpose and not found: {', '.join(missed) or 'none'} (of {', '.join(sanitizer.defects)})", flush=True)
    tally.add(len(sanitizer.defects) - len(missed), len(missed))
    run_programs(build, jobs, tally, prefix, sanitizer.programs(whole), lambda: sanitizer.forgive_own_crashes(reports))
    if whole and (build / "bin" / "shardscope-train").exists():
        run_python(build, jobs, tally, sanitizer.left_out_python)
    tally.add(0, sanitizer.num_findings(reports))
    sanitizer.say_what_is_left_out(build, release if release.exists() else None, whole)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--sanitizers", action="store_true", help="locks as clang sees them, then build/tsan and build/asan instead of --build")
    parser.add_argument("--whole", action="store_true", help="with --sanitizers: nearly all tests (an hour on two cores)")
    parser.add_argument("--jobs", type=int, default=2 * len(os.sched_getaffinity(0)), help="programs at once; many of them wait for others")
    options = parser.parse_args()
    if options.whole and not options.sanitizers:
        parser.error("--whole goes with --sanitizers only: add it")
    began = time.monotonic()
    tally = Tally()
    if options.sanitizers:
        run_check("thread safety", ["scripts/check_thread_safety"], tally)
        for sanitizer in sanitizers.ALL:
            run_sanitizer(sanitizer, options.jobs, tally, options.whole)
    else:
        run_check("format", ["clang-format-14", "--dry-run", "-Werror", *tracked_sources()], tally)
        run_check("layers", [sys.executable, "scripts/check_layers.py"], tally)
        run_programs(options.build.resolve(), options.jobs, tally)
        run_python(options.build.resolve(), options.jobs, tally)
    print(f"tests and checks took {time.monotonic() - began:.0f} s")
    skipped = f", {tally.skipped} skipped" if tally.skipped else ""
    print(f"{tally.passed} passed, {tally.failed} failed{skipped}")
    return 1 if tally.failed or tally.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
