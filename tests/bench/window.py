#!/usr/bin/env python3
"""The window on a training at full speed, drawn by the CPU: what a frame costs and how soon input is answered."""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from by_hand.desktop import Desktop  # noqa: E402
from by_hand.stage import Stage, step  # noqa: E402
from figures import Table  # noqa: E402

SETTLED_STEPS = 20
ANSWER_BUDGET_MS = 500


def cpu_ms_by_thread(pid):
    """Thread ids with name and CPU time so far."""
    times = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        name, rest = (task / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        ticks = sum(int(field) for field in rest.split()[11:13])
        times[int(task.name)] = (name, 1e3 * ticks / os.sysconf("SC_CLK_TCK"))
    return times


def frame_costs(app, seconds, table):
    before, first = cpu_ms_by_thread(app.process.pid), app.shown().frame
    time.sleep(seconds)
    frames = app.shown().frame - first
    costs = {"laying out": 0.0, "OpenGL by the CPU": 0.0, "readers and reports": 0.0}
    for thread, (name, ms) in cpu_ms_by_thread(app.process.pid).items():
        part = "laying out" if thread == app.process.pid else "OpenGL by the CPU" if "llvmpipe" in name else "readers and reports"
        costs[part] += ms - before.get(thread, (name, 0))[1]
    table.add("Frames a second, for rows only", f"{frames / seconds:.1f}")
    for part, ms in costs.items():
        table.add(f"CPU a frame: {part}", f"{ms / max(frames, 1):.1f} ms")


def answers(app, times, name, table):
    took = []
    for _ in range(times):
        theme = app.shown().theme
        start = time.monotonic()
        app.key("ctrl+t")
        app.until("the other theme", lambda shown: shown.theme != theme)
        took.append(1e3 * (time.monotonic() - start))
        time.sleep(0.37)  # not in step with the frames
    table.add(f"Ctrl+T to the end of the frame that shows it, {name}, p50 / max of {times}",
              f"{statistics.median(took):.0f} / {max(took):.0f} ms", f"< {ANSWER_BUDGET_MS} ms", max(took) < ANSWER_BUDGET_MS)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true", help="a smoke run")
    options = parser.parse_args()
    table = Table()
    for frame_ms in (0, 150):
        with tempfile.TemporaryDirectory() as folder, Desktop() as desktop:
            with Stage(desktop, options.build.resolve() / "bin", folder, folder) as stage:
                stage.frame_ms = frame_ms
                app = stage.open(stage.train_at_full_speed())
                app.until("steps", lambda shown: step(shown) >= SETTLED_STEPS)
                if frame_ms == 0:
                    frame_costs(app, 2 if options.quick else 20, table)
                answers(app, 3 if options.quick else 20, f"frames of {frame_ms} ms" if frame_ms else "as quick as it is", table)
    table.print()


if __name__ == "__main__":
    main()
