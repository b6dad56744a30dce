#!/usr/bin/env python3
"""record.max_bytes over a long training: size of the run's folder, what was removed and counted, memory of the trainer."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from figures import Table  # noqa: E402
from trainings import Training  # noqa: E402

# Small ops behind slow collectives: many rows a second, little CPU.
SETTINGS = ("model.layers=8", "model.dim=32", "model.seq=16", "train.batch=1", "transport=emulated", "link.latency=1ms")


def folder_bytes(folder):
    total = 0
    for entry in os.scandir(folder):
        try:
            if entry.is_file(follow_symlinks=False):
                total += entry.stat(follow_symlinks=False).st_size
        except FileNotFoundError:  # removed since it was listed
            pass
    return total


def resident_bytes(process):
    pages = int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def watch(training, seconds):
    """Largest size of the folder, and the number of looks, in that time."""
    largest = looks = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if training.process.poll() is not None:
            raise SystemExit(f"the training ended by itself with {training.process.returncode}")
        largest = max(largest, folder_bytes(training.run))
        looks += 1
        time.sleep(0.005)
    return largest, looks


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true", help="20 seconds under 8 MB")
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--max-mb", type=int, default=64)
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.max_mb = 20, 8
    build, bound = options.build.resolve(), options.max_mb * 1_000_000
    with tempfile.TemporaryDirectory(prefix="shardscope-bench-") as folder:
        training = Training(build, folder, f"record.max_bytes={options.max_mb}MB", *SETTINGS)
        try:
            warm = min(60, options.seconds / 4)
            largest, looks = watch(training, warm)
            early_resident = resident_bytes(training.process)
            late = watch(training, options.seconds - warm)
            late_resident = resident_bytes(training.process)
            steps = training.step()
            training.end()
        except BaseException:
            training.kill()
            raise
        largest, looks = max(largest, late[0]), looks + late[1]
        trace, = training.run.glob("trace-*.db")
        meta = dict(training.query("SELECT key, value FROM meta"))
        kept_rows, = training.query("SELECT (SELECT count(*) FROM op_run) + (SELECT count(*) FROM memory_event)")[0]
        first, last, full = training.query(
            "SELECT min(step), max(step), min(rows) = max(rows) FROM (SELECT step, count(*) AS rows FROM op_run "
            "WHERE step < (SELECT max(step) FROM op_run) GROUP BY step)")[0]
        finished = trace.stat().st_size
        report = json.loads(subprocess.run([str(build / "bin" / "shardscope"), "report", str(training.run), "--json"], check=True,
                                           capture_output=True, text=True).stdout)
    removed = int(meta.get("dropped_engine", 0)) + int(meta.get("dropped_memory", 0))
    table = Table()
    table.add(f"`record.max_bytes={options.max_mb}MB`, a training of {options.seconds} s, {steps:,} steps; folder looked at {looks:,} times",
              f"largest {largest / 1e6:.1f} MB, finished {finished / 1e6:.1f} MB", f"<= {options.max_mb} MB",
              max(largest, finished) <= bound)
    table.add("Its records", f"{removed:,} removed and counted, {kept_rows:,} kept: steps {first} to {last}",
              "every kept step whole", bool(full) and first == int(meta.get("dropped_through_step", -1)) + 1)
    table.add(f"Resident memory of the trainer after {warm:.0f} s and at the end",
              f"{early_resident / 1e6:.1f} MB, {late_resident / 1e6:.1f} MB")
    table.add("`shardscope report` of it", f"state {report['runs'][0]['state'] if 'runs' in report else report.get('state')}")
    table.print()


if __name__ == "__main__":
    main()
