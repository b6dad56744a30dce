#!/usr/bin/env python3
"""Large finished traces outside the app: finishing, bytes a row, report, shot, queries, very many steps."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from figures import Table  # noqa: E402

ROUNDS = 3


def documented_queries():
    """The queries of docs/trace.md, as they stand there."""
    return re.findall(r'^sqlite3 -box runs/a/trace-\*\.db "(.*)"$', (ROOT / "docs" / "trace.md").read_text(), re.MULTILINE)


def folder_bytes(folder):
    total = 0
    for entry in os.scandir(folder):
        try:
            total += entry.stat().st_size
        except FileNotFoundError:  # renamed meanwhile
            pass
    return total


def generate(options, folder, *arguments):
    """Returns what trace_generator prints, and the largest size that the folder had."""
    folder.mkdir()
    program = subprocess.Popen([options.build / "bin" / "trace_generator", folder, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    peak = 0
    while program.poll() is None:
        peak = max(peak, folder_bytes(folder))
        time.sleep(0.01)
    if program.returncode != 0:
        sys.exit("large_trace: trace_generator failed")
    op_runs, path, wall, cpu = program.stdout.read().split()
    return int(op_runs), pathlib.Path(path), float(wall), float(cpu), peak


def run(options, *arguments):
    """Wall and CPU seconds and peak resident MB: of the round that took least."""
    best = None
    for _ in range(1 if options.quick else ROUNDS):
        before = time.monotonic()
        with open(os.devnull, "w") as nowhere:
            program = subprocess.Popen([options.build / "bin" / "shardscope", *map(str, arguments)], stdout=nowhere)
            _, status, usage = os.wait4(program.pid, 0)
        program.returncode = os.waitstatus_to_exitcode(status)
        if program.returncode != 0:
            sys.exit(f"large_trace: shardscope {arguments} ended with {program.returncode}")
        took = (time.monotonic() - before, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
        best = took if best is None else min(best, took)
    return best


def add(table, what, took, most_s):
    wall, cpu, peak_mb = took
    table.add(what, f"{wall:.2f} s ({cpu:.2f} s of CPU, {peak_mb:,.0f} MB)", f"<= {most_s} s", wall <= most_s)


def large(options, folder, table):
    op_runs, path, wall, cpu, peak = generate(options, folder, 100_000 if options.quick else 1_900_000, 8)
    size = path.stat().st_size
    table.add(f"Finishing a trace of {op_runs:,} op runs of 8 ranks", f"{wall:.1f} s ({cpu:.1f} s of CPU)", "<= 20 s", wall <= 20)
    table.add("Peak on disk, of the finished file", f"{peak / size:.2f} times", "<= 2 times", peak <= 2 * size)
    table.add("Bytes a row of op runs, with everything else", f"{size / op_runs:.0f}", "<= 150", size / op_runs <= 150)
    add(table, "`report`", run(options, "report", folder), 3)
    add(table, "`shot`", run(options, "shot", folder, "-o", folder / "shot.png"), 2)
    for number, query in enumerate(documented_queries(), 1):
        add(table, f"Documented query {number}", run(options, "sql", folder, query), 2)
    wall, cpu, peak_mb = run(options, "sql", folder, "SELECT * FROM v_op_run")
    table.add("`sql` of all op runs as text", f"{wall:.1f} s, {peak_mb:,.0f} MB", "<= 100 MB", peak_mb <= 100)


def many_steps(options, folder, table):
    steps = 50_000 if options.quick else 1_000_000
    op_runs, _, wall, cpu, _ = generate(options, folder, 2 * steps, 1, 2)
    table.add(f"{steps:,} steps of 2 ops: finishing", f"{wall:.1f} s ({cpu:.1f} s of CPU)", "<= 60 s", wall <= 60)
    add(table, f"{steps:,} steps: `report`", run(options, "report", folder), 60)
    add(table, f"{steps:,} steps: `shot`", run(options, "shot", folder, "-o", folder / "shot.png"), 60)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true", help="a smoke run on small traces")
    options = parser.parse_args()
    options.build = options.build.resolve()
    table = Table()
    with tempfile.TemporaryDirectory(prefix="shardscope-bench-") as folder:
        large(options, pathlib.Path(folder) / "large", table)
        many_steps(options, pathlib.Path(folder) / "steps", table)
    print(f"Load when it ended: {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores.\n")
    table.print()


if __name__ == "__main__":
    main()
