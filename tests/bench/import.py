#!/usr/bin/env python3
"""Import: torch.profiler's files, their figures, and 8 ranks of them, alternating with HolisticTraceAnalysis."""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests/hta"))
import chrome_traces  # noqa: E402
from compare import ENVIRONMENT  # noqa: E402
from figures import Table  # noqa: E402

ROUNDS = 3
# What HTA does in its own process, and how long each took.
HTA = """
import json, logging, resource, sys, time, warnings
warnings.filterwarnings("ignore"); logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
start = time.monotonic(); analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir=sys.argv[2]); times = {"load": time.monotonic() - start}
for name in ("get_temporal_breakdown", "get_comm_comp_overlap", "get_gpu_kernel_breakdown", "get_idle_time_breakdown", "get_queue_length_summary",
             "get_memory_bw_summary"):
    start = time.monotonic()
    try:
        getattr(analysis, name)(**({} if name.endswith("_summary") else {"visualize": False}))
    except Exception as error:
        print(name, error, file=sys.stderr)
    times[name] = time.monotonic() - start
print(json.dumps({"times": times, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}))
"""


def write_rank(path, rank, steps, world_size):
    """`steps` steps of FSDP2, about 33 events and 6 kB each; the number of events."""
    trace = chrome_traces.fsdp2_step(rank, 10 if rank == 1 else 0)
    trace.values["distributedInfo"]["world_size"] = world_size
    trace.values["baseTimeNanoseconds"] = chrome_traces.BASE_US * 1000
    body = ",\n".join(trace.events)
    body = re.sub(r'"ts": (\d+)\.', lambda found: f'"ts": {int(found.group(1)) - chrome_traces.BASE_US}.', body)
    # Numbers that differ from step to step, by how.
    parts = re.split(r'("ts": \d+|"correlation": \d+|"Seq": \d+|ProfilerStep#\d+)', body)
    growth = {'"ts": ': 1000, '"correlation": ': len(trace.events) + 1, '"Seq": ': 3, "ProfilerStep#": 1}
    with open(path, "w") as file:
        file.write("{" + "".join(f'"{key}": {json.dumps(value)},\n' for key, value in trace.values.items()) + '"traceEvents": [\n')
        numbered = []
        for at in range(1, len(parts), 2):
            key = next(key for key in growth if parts[at].startswith(key))
            numbered.append((at, key, int(parts[at][len(key):]), growth[key]))
        for step in range(steps):
            for at, key, first, grows in numbered:
                parts[at] = f"{key}{first + step * grows}"
            file.write(("" if step == 0 else ",\n") + "".join(parts))
        file.write("\n]}\n")
    return steps * len(trace.events)


def timed(command, environment):
    """Seconds and peak resident MB of a program."""
    start = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{command} failed")
    return time.monotonic() - start, usage.ru_maxrss / 1e3


def ours(options, path, cache, reports=True):
    """Import, then a report of what was imported: that keeps all rows in memory, so not of the largest."""
    shutil.rmtree(cache, ignore_errors=True)
    environment = dict(os.environ, XDG_CACHE_HOME=str(cache))
    app = options.build / "bin/shardscope"
    load, peak = timed([app, "import", path], environment)
    report = timed([app, "report", path, "--json", "--definition", "hta"], environment)[0] if reports else None
    return load, peak, report


def figures_s(options, path, folder):
    """Of HTA's figures, all of them, where the run is loaded already, as HTA's traces are when it is asked for them."""
    run = folder / "figures"
    if not run.exists():
        subprocess.run([options.build / "bin/shardscope", "import", path, "-o", run], check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, XDG_CACHE_HOME=str(folder / "cache")))
    done = subprocess.run([options.build / "bin/gpu_time_bench", run], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["hta_ms"] / 1e3


def against_hta(options, folder, table):
    path = folder / "one/rank0.json"
    path.parent.mkdir()
    events = write_rank(path, 0, 200_000 // 33 if not options.quick else 1_000, 1)
    size = path.stat().st_size / 1e6
    rounds = []
    analyses = []
    for _ in range(1 if options.quick else ROUNDS):
        load, peak, report = ours(options, path, folder / "cache")
        done = subprocess.run([ENVIRONMENT / "bin/python", "-c", HTA, path, path.parent], check=True, capture_output=True, text=True)
        theirs = json.loads(done.stdout.splitlines()[-1])
        analyses.append({key: value for key, value in theirs["times"].items() if key != "load"})
        rounds.append((theirs["times"]["load"] / load, theirs["peak_mb"] / peak, load, peak, theirs["times"]["load"], theirs["peak_mb"],
                       sum(analyses[-1].values()), report, figures_s(options, path, folder)))
    median = [statistics.median(values) for values in zip(*rounds)]
    table.add(f"{size:.0f} MB, {events:,} events: HTA's load over our import, wall", f"{median[0]:.0f}x ({median[4]:.1f} s, {median[2]:.2f} s)", ">= 20x", median[0] >= 20)
    table.add("peak memory, HTA's over ours", f"{median[1]:.1f}x ({median[5]:.0f} MB, {median[3]:.0f} MB)", ">= 3x", median[1] >= 3)
    table.add("HTA's six analyses over ours, all at once, both of a loaded trace", f"{median[6] / median[8]:.0f}x ({median[6]:.2f} s, {median[8]:.3f} s)",
              ">= 50x", median[6] / median[8] >= 50)
    table.add("the same over our whole report of the imported run, as JSON (process start included)", f"{median[6] / median[7]:.0f}x ({median[6]:.2f} s, {median[7]:.3f} s)",
              "", None)
    table.add("HTA's load and six analyses over our import and report", f"{(median[4] + median[6]) / (median[2] + median[7]):.0f}x "
              f"({median[4] + median[6]:.1f} s, {median[2] + median[7]:.2f} s)", "", None)
    for name in analyses[0]:
        time_s = statistics.median(times[name] for times in analyses)
        table.add(f"of these {name}, over all of our report", f"{time_s / median[7]:.2f}x ({time_s:.2f} s)", "", None)


def ranks(options, folder, table, name, steps, most_mb, most_s):
    path = folder / name
    path.mkdir()
    events = sum(write_rank(path / f"rank{rank}.json", rank, steps, 8) for rank in range(8))
    size = sum(file.stat().st_size for file in path.iterdir()) / 1e9
    load, peak, report = ours(options, path, folder / "cache", reports=most_mb == 0)
    shutil.rmtree(path)
    table.add(f"{size:.2f} GB, 8 ranks, {events / 1e6:.1f} M events: import", f"{load:.1f} s", f"< {most_s} s" if most_s else "", load < most_s if most_s else None)
    table.add("peak resident memory", f"{peak:,.0f} MB", f"< {most_mb:,} MB" if most_mb else "", peak < most_mb if most_mb else None)
    if most_mb == 0:
        table.add("report of it, once imported", f"{report:.2f} s", "< 1 s" if most_s else "", report < 1 if most_s else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--quick", action="store_true", help="small files, once")
    parser.add_argument("--large", action="store_true", help="also 5 GB, 30 M events")
    options = parser.parse_args()
    table = Table()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if (ENVIRONMENT / "bin/python").exists():
            against_hta(options, folder, table)
        else:
            print("import: HolisticTraceAnalysis is not there (scripts/compare_hta --setup): nothing to compare with", file=sys.stderr)
        ranks(options, folder, table, "million", 300 if options.quick else 3_800, 0, 5)
        if options.large:
            ranks(options, folder, table, "large", 114_000, 1_500, 0)
    table.print()


if __name__ == "__main__":
    main()
