#!/usr/bin/env python3
"""What switching the strategy of a live run costs, at 19 M parameters: time beyond the steps, beside one step."""
import argparse
import contextlib
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

RANKS = 4
MODEL = ("model.layers=6", "model.dim=512", "model.heads=8", "model.seq=128", "train.batch=4")  # the rows of docs/benchmarks.md beside PyTorch
ORDER = ("full", "ddp", "zero2", "hybrid", "full", "grad_op", "zero1", "zero3", "full")
BUDGET = 1.0  # steps


def run_of(build, folder, steps):
    """A training with a change of strategy every `steps` steps."""
    changes = folder / "changes.toml"
    changes.write_text("".join(f'[[change]]\nstep = {at * steps}\nset = {{"strategy" = "{name}"}}\n' for at, name in enumerate(ORDER) if at > 0))
    run = folder / "run"
    command = command_of(build, run, RANKS, f"strategy={ORDER[0]}", f"data.path={ROOT / 'engine'}", *MODEL, f"train.steps={len(ORDER) * steps}")
    subprocess.run([*command, "--config", str(changes)], check=True, stdout=subprocess.DEVNULL)
    return run


def step_ends(run):
    """When the last rank ended each step, in ms."""
    trace, = run.glob("trace-*.db")
    with contextlib.closing(sqlite3.connect(f"{trace.as_uri()}?mode=ro", uri=True)) as database:
        return [end / 1e6 for (end,) in database.execute("SELECT max(end_ns) FROM step GROUP BY step ORDER BY step")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true", help="one round: to see that it runs")
    options = parser.parse_args()
    steps, rounds = 6, 1 if options.quick else 3
    costs = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            ends = step_ends(run_of(options.build, pathlib.Path(folder), steps))
        took = [after - before for before, after in zip(ends, ends[1:])]  # took[k]: from the end of step k to that of step k + 1
        for at in range(1, len(ORDER)):
            # The first step of a regime pays for the move and for memory that is new; the second may, too.
            usual = statistics.median(took[at * steps + 1:(at + 1) * steps - 1])
            before = statistics.median(took[(at - 1) * steps + 1:at * steps - 1])
            extra = took[at * steps - 1] - usual
            costs.setdefault((ORDER[at - 1], ORDER[at], at), []).append((extra / before, extra, before))
    table = Table()
    for (source, target, _), rows in costs.items():
        ratio, extra, before = (statistics.median(column) for column in zip(*rows))
        table.add(f"`{source}` to `{target}`", f"{ratio:.2f} steps; {extra:.0f} ms, a step of `{source}` {before:.0f} ms", f"<= {BUDGET:.2f}", ratio <= BUDGET)
    print(f"{RANKS} ranks, {', '.join(MODEL)}; a change every {steps} steps, {rounds} rounds, medians. From the end of the step before to the end of the\n"
          "first one after, less a usual step after: re-laid state, the new Schedule, and memory used for the first time.\n")
    table.print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
