#!/usr/bin/env python3
"""The app on 8 ranks that record for minutes: frames, lag, memory; and what a window costs a training."""

import argparse
import json
import os
import pathlib
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
LEAST_HZ, MOST_FRAME_MS, LONGEST_FRAME_MS, MOST_LAG_MS, MOST_GB, MOST_SLOWER = 30, 33, 200, 100, 3, 0.01
BLOCK, PAIRS = 10, 12  # steps, with and without a window in turn


def at(values, share):
    return sorted(values)[round(share * (len(values) - 1))]


def long_run(options, seconds, table):
    """Without OpenGL: drawn by the CPU, a window takes rows ten times a second."""
    with tempfile.TemporaryDirectory(prefix="shardscope-bench-") as folder:
        run = pathlib.Path(folder) / "run"
        run.mkdir()
        recorder = subprocess.Popen([options.build / "bin" / "recorder_bench", "ranks", str(RATE), str(seconds), run],
                                    stdout=subprocess.PIPE, text=True)
        try:
            while not list(run.glob("trace-*.db")):
                time.sleep(0.05)
            done = subprocess.run([options.build / "bin" / "app_bench", "follow", run, str(seconds - 4)], check=True, capture_output=True,
                                  text=True)
            told, _ = recorder.communicate()
        finally:
            recorder.kill()
            recorder.wait()
    app, result = json.loads(done.stdout), json.loads(told)
    frame, lag = app["frame"], app["lag"]
    name = f"8 ranks, {result['rate'] / 1e3:g} k op runs/s for {seconds} s"
    rate = app["frames"] / app["seconds"]
    table.add(f"{name}: frames a second (rows are committed 40 times)", f"{rate:.1f}", f">= {LEAST_HZ}", rate >= LEAST_HZ)
    table.add(f"{name}: CPU of a frame, p50 / p99", f"{frame['median']:.1f} / {frame['p99']:.1f} ms",
              f"p99 <= {MOST_FRAME_MS} ms ({LEAST_HZ} Hz)", frame["p99"] <= MOST_FRAME_MS)
    table.add(f"{name}: CPU of the longest frame", f"{frame['max']:.0f} ms", f"<= {LONGEST_FRAME_MS} ms", frame["max"] <= LONGEST_FRAME_MS)
    table.add(f"{name}: age of the newest row at the end of a frame, p50 / p95 / p99", f"{lag['median']:.0f} / {lag['p95']:.0f} / {lag['p99']:.0f} ms",
              f"p95 <= {MOST_LAG_MS} ms", lag["p95"] <= MOST_LAG_MS)
    table.add(f"{name}: longest time without newer rows, as {app['replaced']} times the last steps took the place of more", f"{app['stood_ms']:,} ms")
    table.add(f"{name}: most resident memory of the app", f"{app['peak_mb'] / 1e3:.2f} GB (steps {app['first_step']:,} on at the end)",
              f"<= {MOST_GB} GB", app["peak_mb"] <= MOST_GB * 1000)
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
