#!/usr/bin/env python3
"""Every strategy on the default model, 4 ranks on an emulated link: time, what is exposed, sent and kept; --write-docs."""
import argparse
import contextlib
import json
import pathlib
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from trainings import train  # noqa: E402

DOCS = ROOT / "docs" / "strategies.md"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"
WARM_UP_STEPS = 2
LINK = ("transport=emulated", "link.bandwidth=250MB/s")
TOLERANCE = 1e-5  # of losses, relative to those of one rank
# Each row's step is of 16 samples: 4 a micro-batch, 4 micro-batches over ranks or one after the other.
ROWS = {
    "single": "strategy=single train.micro_batches=4",
    "data_parallel": "strategy=data_parallel",
    "ddp": "strategy=ddp ddp.bucket_cap=4MB",
    "no_shard": "strategy=no_shard",
    "zero1": "strategy=zero1 zero.reduce_bucket_size=1000000",
    "zero2": "strategy=zero2 zero.reduce_bucket_size=1000000",
    "grad_op": "strategy=grad_op",
    "full": "strategy=full",
    "full, k = 2": "strategy=full reshard_after_forward=2",
    "full, double_buffer": "strategy=full preset=double_buffer",
    "zero3": "strategy=zero3",
    "hybrid": "strategy=hybrid mesh.shard=2 mesh.replicate=2",
    "hybrid_grad_op": "strategy=hybrid_grad_op mesh.shard=2 mesh.replicate=2",
    "tensor": "strategy=tensor train.micro_batches=4",
    "tensor, sequence": "strategy=tensor tensor.sequence_parallel=true train.micro_batches=4",
    "full, 2 tensor ranks": "strategy=full mesh.tensor=2 train.micro_batches=2",
    "model_parallel": "strategy=model_parallel train.micro_batches=4",
    "pipeline, gpipe": "strategy=pipeline pipeline.schedule=gpipe train.micro_batches=4",
    "pipeline, 1f1b": "strategy=pipeline train.micro_batches=4",
    "ddp, 2 stages": "strategy=ddp ddp.bucket_cap=4MB mesh.pipeline=2 train.micro_batches=2",
    "full, 2 stages": "strategy=full mesh.pipeline=2 train.micro_batches=2",
    "full, 2 x 2 stages": "strategy=full mesh.pipeline=2 pipeline.schedule=interleaved pipeline.chunks=2 train.micro_batches=2",
}


@dataclass
class Row:
    """What the rounds of one strategy gave."""

    step_ns: list[float] = field(default_factory=list)  # a round's median of the slowest rank's
    exposed: list[float] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)  # of each rank, in its last step
    peaks: list[int] = field(default_factory=list)  # of each rank, the highest of all rounds
    predicted: int = 0
    bound: int = 0
    losses: list[float] = field(default_factory=list)  # of each step, mean over the ranks that have one


def sent_in_the_last_step(run):
    trace, = run.glob("trace-*.db")
    with contextlib.closing(sqlite3.connect(f"{trace.as_uri()}?mode=ro", uri=True)) as database:
        ranks, last = database.execute("SELECT 1 + max(rank), max(step) FROM step").fetchone()
        sent = dict(database.execute("SELECT rank, sum(wire_bytes) FROM collective WHERE step = ? AND kind <> 'receive' GROUP BY rank", (last,)))
    return [sent.get(rank, 0) for rank in range(ranks)]


def measure(build, name, steps, row):
    with tempfile.TemporaryDirectory() as folder:
        run = train(build, pathlib.Path(folder) / "run", 1 if name == "single" else 4, f"train.steps={WARM_UP_STEPS + steps}",
                    f"data.path={ROOT / 'engine'}", *LINK, *ROWS[name].split())
        text = subprocess.run([build / "bin" / "shardscope", "report", run, "--json"], check=True, capture_output=True, text=True).stdout
        row.sent = sent_in_the_last_step(run)
    report = json.loads(text)
    by_step = {}
    for of_rank in report["steps"]:
        by_step.setdefault(of_rank["step"], []).append(of_rank)
    row.step_ns.append(statistics.median(max(rank["step_ns"] for rank in by_step[step]) for step in list(by_step)[WARM_UP_STEPS:]))
    row.exposed.append(report["summary"]["exposed_share"])
    row.losses = [statistics.mean(rank["loss"] for rank in ranks if rank["tokens"] > 0) for ranks in by_step.values()]
    peaks = [rank["peak_bytes"] for rank in report["memory"]]
    row.peaks = [max(pair) for pair in zip(peaks, row.peaks or peaks)]
    schedule, = report["schedules"]
    row.predicted, row.bound = schedule["predicted_peak_bytes"], schedule["executed_bound_bytes"]


def spread(values):
    """Lowest to highest, where they differ."""
    low, high = f"{min(values) / 1e6:.1f}", f"{max(values) / 1e6:.1f}"
    return f"{low} MB" if low == high else f"{low} to {high} MB"


def deviation(row, other):
    return max(abs(a - b) / b for a, b in zip(row.losses, other.losses, strict=True))


def table(rows):
    lines = ["| strategy | settings | step / that of `ddp` | exposed | a rank sends | peak of rank 0, 1, ... in MB | predicted; bound | losses beside `single` |",
             "|---|---|---|---|---|---|---|---|"]
    for name, row in rows.items():
        ratios = [mine / ddp for mine, ddp in zip(row.step_ns, rows["ddp"].step_ns, strict=True)]
        peaks = [f"{peak / 1e6:.1f}" for peak in row.peaks]
        peaks = f"{peaks[0]} each" if len(peaks) > 1 and len(set(peaks)) == 1 else ", ".join(peaks)
        losses = "" if name == "single" else f"{deviation(row, rows['single']):.0e} apart"
        lines.append(f"| `{name}` | {' '.join(f'`{setting}`' for setting in ROWS[name].split()[1:])} | {statistics.median(ratios):.2f} | "
                     f"{statistics.median(row.exposed):.0%} | {spread(row.sent)} | {peaks} | {row.predicted / 1e6:.1f}; "
                     f"{row.bound / 1e6:.1f} MB | {losses} |")
    return "\n".join(lines) + "\n"


def misses(rows):
    for name, row in rows.items():
        if deviation(row, rows["single"]) > TOLERANCE:
            yield f"MISS: losses of {name} are not those of one rank"
        if max(row.peaks) > row.bound:
            yield f"MISS: {name} takes more memory than its bound"


def write_docs(text):
    head, rest = DOCS.read_text().split(BEGIN)
    DOCS.write_text(head + BEGIN + text + END + rest.split(END)[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true", help="one round of two steps: to see that it runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help="measured steps of a strategy in a round")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/strategies.md")
    options = parser.parse_args()
    rounds, steps = (1, 2) if options.quick else (options.rounds, options.steps)
    rows = {name: Row() for name in ROWS}
    for _ in range(rounds):
        for name, row in rows.items():
            measure(options.build, name, steps, row)
    text = (f"`scripts/bench strategies --write-docs`: {rounds} rounds in each of which every row runs {WARM_UP_STEPS} steps of warm-up and {steps} "
            f"measured ones; medians.\n`{' '.join(LINK)}`, {len(rows['ddp'].peaks)} ranks (`single`: one), the default model, 16 samples a step in "
            "every row, fp32.\n\n" + table(rows))
    print(text, end="")
    missed = list(misses(rows))
    print("\n".join(missed))
    if options.write_docs:
        write_docs(text)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
