#!/usr/bin/env python3
"""The window on 8 ranks that record for minutes: frames a second, lag, memory; and what a window costs a training."""

import argparse
import contextlib
import json
import os
import pathlib
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from by_hand.desktop import Desktop  # noqa: E402
from by_hand.stage import Stage, step  # noqa: E402
from figures import Table  # noqa: E402
from trainings import Training  # noqa: E402

RATE = 50_000  # op runs a second, of all ranks
LOOKS_A_SECOND = 5
LEAST_HZ, MOST_LAG_MS, MOST_GB, MOST_SLOWER = 28, 100, 3, 0.01
BLOCK, PAIRS = 10, 12  # steps, with and without a window in turn


def resident_bytes(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def step_ends(run):
    """Of the finished trace: when the last rank ended each step."""
    trace, = run.glob("trace-*.db")
    with contextlib.closing(sqlite3.connect(f"{trace.as_uri()}?mode=ro", uri=True)) as database:
        return dict(database.execute("SELECT step, max(end_ns) FROM step GROUP BY step"))


def at(values, share):
    return sorted(values)[round(share * (len(values) - 1))]


def long_run(options, seconds, table):
    looks = []  # (monotonic ns, newest step, frame, resident bytes)
    with tempfile.TemporaryDirectory(prefix="shardscope-bench-") as folder, Desktop() as desktop:
        run = pathlib.Path(folder) / "run"
        run.mkdir()
        recorder = subprocess.Popen([options.build / "bin" / "recorder_bench", "ranks", str(RATE), str(seconds), run],
                                    stdout=subprocess.PIPE, text=True)
        try:
            while not list(run.glob("trace-*.db")):
                time.sleep(0.05)
            with Stage(desktop, options.build / "bin", folder, folder) as stage:
                app = stage.open(run)
                app.until("steps", lambda shown: step(shown) > 0)
                begin = time.monotonic()
                while recorder.poll() is None and time.monotonic() - begin < seconds - 8:
                    shown = app.shown()
                    looks.append((time.monotonic_ns(), step(shown), shown.frame, resident_bytes(app.process.pid)))
                    time.sleep(1 / LOOKS_A_SECOND)
                told, _ = recorder.communicate()
        finally:
            recorder.kill()
            recorder.wait()
        ends = step_ends(run)
    result = json.loads(told)
    # A look comes at any time of a frame, and a step may have ended since: both count as lag.
    lags = [(now - ends[newest]) / 1e6 for now, newest, _, _ in looks if newest in ends]
    first, last = looks[0], looks[-1]
    hz = (last[2] - first[2]) / ((last[0] - first[0]) / 1e9)
    standing = sum(1 for before, after in zip(looks, looks[1:]) if before[1] == after[1])
    peak = max(look[3] for look in looks)
    name = f"8 ranks, {result['rate'] / 1e3:g} k op runs/s for {seconds} s"
    table.add(f"{name}: frames a second", f"{hz:.1f}", f">= {LEAST_HZ} (30 Hz)", hz >= LEAST_HZ)
    table.add(f"{name}: from a step's end to the window, {len(lags)} looks, p50 / p95 / max",
              f"{at(lags, 0.5):.0f} / {at(lags, 0.95):.0f} / {max(lags):.0f} ms", f"p95 <= {MOST_LAG_MS} ms", at(lags, 0.95) <= MOST_LAG_MS)
    table.add(f"{name}: looks {1e3 / LOOKS_A_SECOND:.0f} ms apart at which the window stood still", f"{standing} of {len(looks)}")
    table.add(f"{name}: most resident memory of the app", f"{peak / 1e9:.2f} GB (of {max(ends) + 1:,} steps)", f"<= {MOST_GB} GB",
              peak <= MOST_GB * 1e9)
    table.add(f"{name}: records lost", str(result["dropped"]), "0", result["dropped"] == 0)


def slowed(options, table):
    """One rank on a core of its own, the window and the screen on the others."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        table.add("A training's step with the window open / without", "not measured: one core")
        return
    block, pairs = (4, 2) if options.quick else (BLOCK, PAIRS)
    with tempfile.TemporaryDirectory(prefix="shardscope-bench-") as folder:
        training = Training(options.build, folder, ranks=1)
        for task in pathlib.Path(f"/proc/{training.process.pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), cores[:1])
        os.sched_setaffinity(0, cores[1:])
        blocks = []  # first and last step
        try:
            with Desktop() as desktop:
                for _ in range(pairs):
                    with Stage(desktop, options.build / "bin", folder, folder) as stage:
                        app = stage.open(training.run)
                        app.until("steps", lambda shown: step(shown) > 0)
                        begin = training.step() + 1
                        training.wait(lambda: training.step() >= begin + block)
                        blocks.append((begin, training.step()))
                    begin = training.step() + 1
                    training.wait(lambda: training.step() >= begin + block)
                    blocks.append((begin, training.step()))
        finally:
            os.sched_setaffinity(0, cores)
        training.end()
        times = dict(training.query("SELECT step, end_ns - start_ns FROM step"))
    means = [statistics.median(times[at] for at in range(first, last) if at in times) for first, last in blocks]
    ratios = [with_window / without for with_window, without in zip(means[::2], means[1::2])]
    slower = statistics.median(ratios) - 1
    table.add(f"A training's step with the window open / without, {pairs} blocks of {block} steps in turn, one rank on a core of its own",
              f"{1 + slower:.3f} (quartiles {at(ratios, 0.25):.3f} to {at(ratios, 0.75):.3f}); a step takes {means[1] / 1e6:.0f} ms",
              f"<= {1 + MOST_SLOWER}", slower <= MOST_SLOWER)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true", help="a smoke run")
    parser.add_argument("--seconds", type=int, default=600)
    options = parser.parse_args()
    options.build = options.build.resolve()
    table = Table()
    long_run(options, 20 if options.quick else options.seconds, table)
    slowed(options, table)
    table.print()


if __name__ == "__main__":
    main()
