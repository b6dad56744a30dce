#!/usr/bin/env python3
"""What a range of NVTX costs a program: alone, under `shardscope record`, and after its --duration."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DURATION_MS = 300


def run(options, *, recorded, delay_ms=0, duration_ms=0):
    """What the program measured, and how many records its trace lost."""
    program = [options.build / "bin" / "nvtx_bench", delay_ms, 10 if options.quick else 60]
    with tempfile.TemporaryDirectory(prefix="shardscope-bench-") as folder:
        environment = {key: value for key, value in os.environ.items() if key != "NVTX_INJECTION64_PATH"}
        app, trace = options.build / "bin" / "shardscope", pathlib.Path(folder) / "run"
        duration = ["--duration", f"{duration_ms}ms"] if duration_ms else []
        command = [app, "record", "-o", trace, *duration, "--", *program] if recorded else program
        done = subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              env=environment)
        result = json.loads(done.stdout)
        if recorded:
            report = json.loads(subprocess.run([app, "report", trace, "--json"], check=True, capture_output=True, text=True).stdout)
            result["dropped"] = sum(report["dropped"].values())
        return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true", help="few bursts, once")
    options = parser.parse_args()
    cases = {
        "alone": {"recorded": False},
        "recorded": {"recorded": True},
        "recorded, after `--duration` is over": {"recorded": True, "delay_ms": 2 * DURATION_MS, "duration_ms": DURATION_MS},
    }
    # In turn, so that what else the machine does meets all of them.
    rounds = [{name: run(options, **case) for name, case in cases.items()} for _ in range(1 if options.quick else 5)]
    print("| program | push and pop | start and end | dropped |\n|---|---|---|---|")
    for name in cases:
        push, start = (statistics.median(one[name][key] for one in rounds) for key in ("push_pop_ns", "start_end_ns"))
        dropped = sum(one[name].get("dropped", 0) for one in rounds)
        print(f"| {name} | {push:.1f} ns | {start:.1f} ns | {dropped if cases[name]['recorded'] else ''} |")


if __name__ == "__main__":
    main()
