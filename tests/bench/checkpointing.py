#!/usr/bin/env python3
"""What activation checkpointing and offload cost and save: step, peak of a rank, memory of the host; the losses are the same bits."""
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
from trainings import train  # noqa: E402

RANKS = 2
WARM_UP = 2
SETTINGS = {
    "none": (),
    "selective": ("checkpointing=selective",),
    "every:2": ("checkpointing=every:2",),
    "full": ("checkpointing=full",),
    "offload": ("offload=all",),
    "offload, no clipping": ("offload=all", "train.clip=0"),
    "full, offload": ("checkpointing=full", "offload=all"),
}


def host_bytes(database):
    """Of the rank that has most there at once."""
    peaks = {}
    live = {}
    for rank, size in database.execute("SELECT rank, bytes FROM memory_event WHERE category = 'host' ORDER BY executed_ns, id"):
        live[rank] = live.get(rank, 0) + size
        peaks[rank] = max(peaks.get(rank, 0), live[rank])
    return max(peaks.values(), default=0)


def measure(build, settings, quick):
    size = ["model.layers=3", "model.dim=64"] if quick else ["model.layers=8", "model.dim=512"]
    with tempfile.TemporaryDirectory() as folder:
        run = train(build, pathlib.Path(folder) / "run", RANKS, f"data.path={ROOT / 'engine'}", "transport=shared_memory", "model.heads=8",
                    "model.seq=128", "train.batch=2", f"train.steps={WARM_UP + (2 if quick else 6)}", *size, *settings)
        report = subprocess.run([build / "bin" / "shardscope", "report", run, "--json"], check=True, capture_output=True, text=True).stdout
        trace, = run.glob("trace-*.db")
        with contextlib.closing(sqlite3.connect(trace)) as database:
            steps = [row[0] for row in database.execute("SELECT end_ns - start_ns FROM step WHERE rank = 0 AND step >= ?", (WARM_UP,))]
            losses = [row[0] for row in database.execute("SELECT loss FROM step ORDER BY step, rank")]
            return {"steps": steps, "losses": losses, "peak": max(one["peak_bytes"] for one in json.loads(report)["schedules"]),
                    "host": host_bytes(database)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true", help="a smoke run: a small model, each setting once")
    options = parser.parse_args()
    rounds = []
    for _ in range(1 if options.quick else 3):  # alternating, so that all see the same machine
        rounds.append({name: measure(options.build, settings, options.quick) for name, settings in SETTINGS.items()})
    plain = rounds[0]["none"]
    print("Two ranks of a byte GPT" + ("" if options.quick else ", 8 layers, dim 512, seq 128, batch 2") + "; medians. PASS: the losses of `none` (with offload")
    print("and no clipping those of no clipping), and a lower peak.\n")
    print("| setting | step | of none | peak of a rank | of none | memory of the host | |")
    print("|---|---|---|---|---|---|---|")
    step_of_none = statistics.median(ns for one in rounds for ns in one["none"]["steps"])
    without_clipping = measure(options.build, ("train.clip=0",), options.quick)["losses"]
    for name in SETTINGS:
        runs = [one[name] for one in rounds]
        step = statistics.median(ns for run in runs for ns in run["steps"])
        peak = max(run["peak"] for run in runs)
        losses = without_clipping if "no clipping" in name else plain["losses"]
        passed = all(run["losses"] == losses for run in runs) and (name == "none" or peak < plain["peak"])
        print(f"| {name} | {step / 1e6:.1f} ms | {step / step_of_none:.2f} | {peak / 1e6:.1f} MB | {peak / plain['peak']:.2f} | "
              f"{runs[0]['host'] / 1e6:.1f} MB | {'PASS' if passed else 'MISS'} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
