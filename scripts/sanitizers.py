"""How scripts/run_tests.py runs tests under sanitizers: environment, what runs, and the reports found. Run with the name of a
preset, it prints what has to be built for its short set.

A sanitizer writes each finding into a file of its own, whichever program of a test it was in: a trainer in the background,
a child that nobody waits for. A report is a failure, even if the test that caused it passed.
"""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# With more random bits than this the address space has no room left for the shadow memory of GCC 12's sanitizers.
MAX_RANDOM_BITS = 28


def num_cases(program):
    """Of a CTest entry by the path that it would have: a test program, or one of the equal parts of it, `NAME.IofN`."""
    part = re.search(r"\.\d+of(\d+)$", program.name)
    if part:
        return num_cases(program.with_name(program.name[:part.start()])) // int(part[1])
    if not program.exists():
        return 1  # a script, one CTest entry
    listed = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True)
    return sum(line.startswith("  ") for line in listed.stdout.splitlines())


def programs_of(build):
    listed = subprocess.run(["ctest", "--test-dir", str(build), "-N"], capture_output=True, text=True, check=True)
    entries = re.findall(r"Test +#\d+: (\S+)", listed.stdout)
    return {re.sub(r"\.\d+of\d+$", "", entry) for entry in entries}  # a program may run in parts


def num_python_tests(name="*_test"):
    # By their text: loaded, they would keep the programs of the first build that they saw.
    return sum(len(re.findall(r"^    def test_", path.read_text(), re.M)) for path in (ROOT / "tests").rglob(f"{name}.py"))


def is_own_crash(report):
    return "LeakSanitizer has encountered a fatal error" in report and "ERROR:" not in report and "SUMMARY:" not in report


class Sanitizer:
    """One build under sanitizers: its preset, what to call it, a factor on the counts of random tests, the defects of
    tests/sanitizers/canary.cc that it has to find, the CTest programs of the short set, and what does not run even if everything is
    asked for, with the reason: CTest names, Python modules."""

    def __init__(self, preset, words, scale, defects, short, left_out, left_out_python=()):
        self.preset, self.words, self.scale, self.defects, self.short = preset, words, scale, defects, short
        self.left_out, self.left_out_python = left_out, dict(left_out_python)

    def targets(self):
        """What has to be built for the short set."""
        return ("sanitizer_canary", *self.short)

    def programs(self, whole):
        """CTest's arguments that choose the programs to run."""
        if not whole:
            return ["-R", f"^({'|'.join(self.short)})$"]
        return ["-E", f"^({'|'.join(self.left_out)})$"]

    def start(self, reports):
        """Makes all programs started from now on report into the folder `reports`."""
        reports.mkdir(parents=True, exist_ok=True)
        for old in reports.iterdir():
            old.unlink()
        # The undefined-behaviour sanitizer of GCC 12 cannot write into a file when it is not alone. So it aborts, and the
        # address sanitizer reports the abort with its place; the message itself is on standard error.
        # Some tests preload a library of their own (link order), some bound the memory of what they attack (quarantine).
        # Following the thread-local memory of loaded libraries crashes the leak sanitizer's tracer in tests that load some.
        log = f"log_path={reports}/report"
        os.environ.update({
            "SHARDSCOPE_TEST_SCALE": str(self.scale),
            "ASAN_OPTIONS": f"{log}:detect_leaks=1:detect_stack_use_after_return=1:check_initialization_order=1:handle_abort=1:"
                            "verify_asan_link_order=0:quarantine_size_mb=16:intercept_tls_get_addr=0",
            "UBSAN_OPTIONS": f"{log}:print_stacktrace=1:abort_on_error=1",
            "TSAN_OPTIONS": f"{log}:second_deadlock_stack=1",
        })

    def missed_defects(self, build, reports, prefix):
        """Which of the defects put there on purpose are not reported. `reports` is empty afterwards."""
        missed = []
        for defect in self.defects:
            subprocess.run([*prefix, build / "bin" / "sanitizer_canary", defect], capture_output=True)
            found = list(reports.iterdir())
            if not found:
                missed.append(defect)
            for report in found:
                report.unlink()
        return missed

    def forgive_own_crashes(self, reports):
        """Prints and removes the reports that tell only of a crash of the leak sanitizer's own tracer at a program's exit, which
        happens now and then with several threads (google/sanitizers#1353); returns how many."""
        own = [report for report in reports.iterdir() if is_own_crash(report.read_text(errors="replace"))]
        for report in own:
            print(f"{self.words}: the leak sanitizer itself crashed ({report.name}):\n{report.read_text(errors='replace')}")
            report.unlink()
        return len(own)

    def num_findings(self, reports):
        """Prints every report; returns how many."""
        found = sorted(reports.iterdir())
        for report in found:
            print(f"FINDING of the {self.words}, {report}:")
            print(report.read_text(errors="replace")[:6000])
        return len(found)

    def say_what_is_left_out(self, build, release, whole):
        """Prints which programs and how many cases did not run; `release` is a build that has them all, or None."""
        print(f"{self.words}: counts of random tests, and of cases that differ in their numbers alone, times {self.scale}")
        if not whole:
            beside = ""
            if release:
                every = sum(num_cases(release / "tests" / name) for name in programs_of(release))
                beside = f" of {every}, and none of {num_python_tests()} Python tests"
            cases = sum(num_cases(build / "tests" / name) for name in self.short)
            print(f"{self.words}: the short set, {len(self.short)} programs with {cases} cases{beside}; --whole runs nearly all")
            return
        for name, reason in sorted(self.left_out.items()):
            print(f"{self.words}: left out {name} ({num_cases(build / 'tests' / name)} cases): {reason}")
        for reason in sorted(set(self.left_out_python.values())):
            names = sorted(name for name, why in self.left_out_python.items() if why == reason)
            tests = sum(num_python_tests(name) for name in names)
            print(f"{self.words}: left out {len(names)} files ({tests} Python tests): {reason}: {', '.join(names)}")
        absent = sorted(programs_of(release) - programs_of(build)) if release else []
        if absent:
            cases = sum(num_cases(release / "tests" / name) for name in absent)
            print(f"{self.words}: left out {len(absent)} programs ({cases} cases), which need LibTorch or a window, neither "
                  f"built for this sanitizer: {', '.join(absent)}")
        if not (build / "bin" / "shardscope-train").exists():
            print(f"{self.words}: left out {num_python_tests()} Python tests: nearly all drive the trainer, which is not built for it")


# Python tests of scripts and of the source tree.
OF_SCRIPTS = ("by_hand_test", "check_layers_test", "docs_test", "fetch_archives_test", "fuzz_script_test", "gpu_check_test",
              "run_tests_test", "schedule_docs_test", "thread_safety_test")

# Where threads meet: what is recorded, stored and followed, the executor's streams, transports, and what runs in the background.
WITH_THREADS = ("base_test", "checkpoint_test", "cuda_device_test", "cuda_recording_test", "cuda_transport_test", "cupti_record_test",
                "executor_test", "gpu_record_test", "query_test", "record_inject_test", "record_test", "simulate_test",
                "store_finished_test", "store_remote_test", "store_test", "tokenizing_told_test", "transport_test")

# What reads files and messages that others wrote, and what packs bytes by hand. None needs LibTorch or a window, whose builds take longest.
OF_BYTES = ("base_test", "bookmarks_test", "checkpoint_test", "config_test", "cuda_device_test", "cuda_transport_test", "cupti_record_test",
            "executor_test", "fuzz_targets_test", "gpu_record_test", "import_test", "query_test", "record_test", "schema_test",
            "store_finished_test", "store_remote_test", "store_test", "tokenizer_test", "trace_faults_test", "transport_test")

ALL = (
    Sanitizer("tsan", "thread sanitizer", 0.5, ("race",), WITH_THREADS, {"plan_oracle_test": "has one thread"}),
    Sanitizer("asan", "address and undefined-behaviour sanitizers", 0.5, ("overflow", "leak", "undefined"), OF_BYTES,
              {"ui_live_window_test": "counts frames of a window, which ui_window_test opens, too"},
              {**dict.fromkeys(("export_folder_test", "memory_test", "processes_test", "strategies_test"),
                               "trains for minutes with code that runtime_test, checkpoint_test, footprint_test and transport_test enter, too"),
               **dict.fromkeys(OF_SCRIPTS, "is of a script or the source tree, and runs no program that is built for this sanitizer"),
               "gpu_check_pack_test": "packs the programs of a build, and one with sanitizers has nothing to pack: it skips itself there"}),
)


def fixed_addresses():
    """The prefix of a command that keeps addresses within what sanitizers can bear; empty where they are anyway."""
    try:
        bits = int(pathlib.Path("/proc/sys/vm/mmap_rnd_bits").read_text())
    except (OSError, ValueError):
        return []  # hidden in some containers; a sanitizer that cannot start says so itself
    if bits <= MAX_RANDOM_BITS or subprocess.run(["setarch", "-R", "true"], capture_output=True).returncode != 0:
        return []
    return ["setarch", "-R"]


if __name__ == "__main__":
    print(*next(sanitizer.targets() for sanitizer in ALL if [sanitizer.preset] == sys.argv[1:]))
