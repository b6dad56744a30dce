#!/usr/bin/env python3
"""What checkpoints cost while a training goes on: 8 layers, dim 512, 2 ranks, one every 10 steps against none, alternating."""
import argparse
import contextlib
import json
import pathlib
import sqlite3
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from figures import Table  # noqa: E402
from trainings import command_of  # noqa: E402

RANKS, EVERY, BUDGET = 2, 10, 0.01  # of a step
MODEL = ("model.layers=8", "model.dim=512", "model.heads=8", "model.seq=128", "train.batch=4")
SMALL = ("model.layers=2", "model.dim=64", "model.heads=8", "model.seq=32", "train.batch=2")


def run_of(build, folder, model, steps, every):
    run = folder / f"run{every}"
    command = command_of(build, run, RANKS, f"data.path={ROOT / 'engine'}", *model, f"train.steps={steps}", f"checkpoint.every={every}")
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return run


def times(run):
    """Mean ns from the end of a step to that of the next, of whole rounds of EVERY, and the pauses for copies."""
    trace, = run.glob("trace-*.db")
    with contextlib.closing(sqlite3.connect(f"{trace.as_uri()}?mode=ro", uri=True)) as database:
        ends = [end for (end,) in database.execute("SELECT max(end_ns) FROM step GROUP BY step ORDER BY step")]
        copies = [ns for (ns,) in database.execute("SELECT max(end_ns - start_ns) FROM pause WHERE cause = 'checkpoint' GROUP BY step")]
    return (ends[-1] - ends[EVERY - 1]) / (len(ends) - EVERY), copies


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true", help="one round of a small model: to see that it runs")
    options = parser.parse_args()
    model, steps, rounds = (SMALL, 2 * EVERY, 1) if options.quick else (MODEL, 4 * EVERY, 5)
    without, with_them, copies, sizes = [], [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            without.append(times(run_of(options.build, pathlib.Path(folder), model, steps, 0))[0])
            run = run_of(options.build, pathlib.Path(folder), model, steps, EVERY)
            mean, pauses = times(run)
            with_them.append(mean)
            copies += pauses
            index = json.loads((run / "checkpoints" / f"step-{steps}" / "index.json").read_text())
            sizes.append(sum(file["bytes"] for file in index["files"]))
    cost = statistics.median(after / before - 1 for before, after in zip(without, with_them))
    step = statistics.median(without) / 1e6
    table = Table()
    table.add(f"a checkpoint every {EVERY} steps", f"{100 * cost:.2f} % of a step of {step:.0f} ms", f"<= {100 * BUDGET:.0f} %", cost <= BUDGET)
    table.add("pause in which the ranks copy", f"{statistics.median(copies) / 1e6:.1f} ms for {sizes[0] / 1e6:.0f} MB")
    print(f"{RANKS} ranks, {', '.join(model)}, {rounds} round(s) of {steps} steps, medians.\n")
    table.print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
