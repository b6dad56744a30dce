#!/usr/bin/env python3
"""The app: CPU time of a frame, first frame and memory of large traces, commit to screen, start, idle."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from figures import Table  # noqa: E402
from programs import TINY  # noqa: E402
from trainings import Training  # noqa: E402

FRAME_BUDGET_MS = {"1 M": 2.0, "10 M": 3.0, "100 M": 6.0}  # the whole run in view
MOVING_BUDGET_MS = 12.0  # p99 of all zooms and pans
FIRST_FRAME_BUDGET_S = {"1 M": 0.5, "10 M": 1.0, "100 M": 1.0}
LOADED_BUDGET_S = {"10 M": 4.0, "100 M": 30.0}
MEMORY_BUDGET_MB = {"10 M": 1000, "100 M": 3000}
SEARCH_BUDGET_MS = {"1 M": 300.0, "10 M": 300.0}
AREA_BUDGET_MS = {"1 M": 300.0}
RANKS_FRAME_BUDGET_MS = 4.0  # of 512 ranks x 100 steps
LONGEST_FRAME_BUDGET_MS = 200.0  # while rows come in
LAG_BUDGET_MS = 100.0  # p95, from commit to the end of the frame
OPEN_RUNS = {"100 M": 1}  # else three
OPS_A_STEP = 100  # of a rank, as trace_generator makes them
IDLE_S = 20


def bench(options, *arguments):
    done = subprocess.run([options.build / "bin" / "app_bench", *map(str, arguments)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def trace(options, op_runs, *more):
    """A trace of this size, made once."""
    folder = options.traces / "-".join(map(str, (op_runs, *more)))
    if not list(folder.glob("trace-*.db")) or list(folder.glob("*.live.db")):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        print(f"app: making a trace of {op_runs:,} op runs in {folder}", file=sys.stderr)
        subprocess.run([options.build / "bin" / "trace_generator", folder, *map(str, (op_runs, *more))], check=True, stdout=subprocess.DEVNULL)
    return folder


def first_frames(options, name, folder, table):
    runs = [bench(options, "open", folder, time.monotonic_ns()) for _ in range(OPEN_RUNS.get(name, 3))]
    first = statistics.median(run["first_frame_ms"] for run in runs) / 1e3
    loaded = statistics.median(run["loaded_ms"] for run in runs) / 1e3
    budget = FIRST_FRAME_BUDGET_S.get(name)
    table.add(f"{name}: first frame with rows, from process start", f"{first:.2f} s", f"< {budget} s" if budget else "",
              first < budget if budget else None)
    budget = LOADED_BUDGET_S.get(name)
    part = f" ({runs[0]['op_runs'] / 1e6:.1f} M op runs of it)" if name == "100 M" else ""
    table.add(f"{name}: everything loaded{part}", f"{loaded:.1f} s", f"< {budget:g} s" if budget else "", loaded < budget if budget else None)
    dearest = max(run["loading_frame_max_ms"] for run in runs)
    table.add(f"{name}: dearest frame meanwhile, CPU", f"{dearest:.0f} ms", f"<= {LONGEST_FRAME_BUDGET_MS:g} ms", dearest <= LONGEST_FRAME_BUDGET_MS)
    peak = max(run["peak_mb"] for run in runs)
    budget = MEMORY_BUDGET_MB.get(name)
    table.add(f"{name}: peak resident memory", f"{peak:,} MB", f"<= {budget:,} MB" if budget else "", peak <= budget if budget else None)


def add_within(table, what, takes, budget):
    """Milliseconds; `budget` None: none."""
    table.add(what, f"{takes:.0f} ms", f"< {budget:g} ms" if budget else "", takes < budget if budget else None)


def frames(options, name, folder, table):
    result = bench(options, "frames", folder)
    budget = FRAME_BUDGET_MS.get(name)
    print(f"\nCPU time of building a frame, {name} trace, {result['ranks']} ranks unfolded, 1920x1080, ms:\n")
    print("| view | spans in view | all panels p50 | p95 | max | timeline alone p50 | p95 |\n|---|---|---|---|---|---|---|")
    for view in result["views"]:
        whole, alone = view["all"], view["timeline"]
        spans = f"{view['spans']:,}" if view["spans"] else "all to few"
        print(f"| {view['view']} | {spans} | {whole['median']:.2f} | {whole['p95']:.2f} | {whole['max']:.2f} | {alone['median']:.2f} "
              f"| {alone['p95']:.2f} |")
    whole = result["views"][0]["all"]
    table.add(f"{name}: frame build, whole run in view, p50 (p95)", f"{whole['median']:.2f} ms ({whole['p95']:.2f})",
              f"<= {budget:g} ms" if budget else "", whole["median"] <= budget if budget else None)
    slowest = max(view["all"]["p99"] for view in result["views"])
    table.add(f"{name}: frame build while zooming and panning, p99 of the dearest of {len(result['views'])} views", f"{slowest:.2f} ms",
              f"<= {MOVING_BUDGET_MS:g} ms", slowest <= MOVING_BUDGET_MS)
    for search in result["searches"]:
        what = f"{name}: search for {search['query']}, {search['hits']:,} hits"
        add_within(table, f"{what}, on a thread of its own", search["search"]["median"], SEARCH_BUDGET_MS.get(name))
        frame = search["frame"]
        table.add(f"{what}: frame build, whole run in view, p50 (p95)", f"{frame['median']:.2f} ms ({frame['p95']:.2f})",
                  f"<= {budget:g} ms" if budget else "", frame["median"] <= budget if budget else None)
    area = result["area"]
    frame = area["frame"]
    what = f"{name}: an area of {area['ops']:,} ops"
    add_within(table, f"{what}, measured on a thread of its own", area["measuring"]["median"], AREA_BUDGET_MS.get(name))
    add_within(table, f"{what}, with the causes of idle time, which come later", area["with_causes"]["median"], AREA_BUDGET_MS.get(name))
    table.add(f"{what}: frame build, whole run in view, p50 (p95)", f"{frame['median']:.2f} ms ({frame['p95']:.2f})",
              f"<= {budget:g} ms" if budget else "", frame["median"] <= budget if budget else None)


def ranks(options, table):
    num_ranks, slow = (64, 37) if options.quick else (512, 300)
    steps = 10 if options.quick else 100
    folder = trace(options, num_ranks * steps * OPS_A_STEP, num_ranks, "--slow-rank", slow)
    result = bench(options, "ranks", folder)
    name = f"{result['ranks']} ranks x {result['steps']} steps"
    for panel, frame in result["frames"].items():
        table.add(f"{name}: frame build with {panel} in front, p50 (p95)", f"{frame['median']:.2f} ms ({frame['p95']:.2f})",
                  f"<= {RANKS_FRAME_BUDGET_MS:g} ms", frame["median"] <= RANKS_FRAME_BUDGET_MS)
    dearest = result["loading_max_ms"]
    table.add(f"{name}: dearest frame while it is loaded, CPU", f"{dearest:.0f} ms", f"<= {LONGEST_FRAME_BUDGET_MS:g} ms",
              dearest <= LONGEST_FRAME_BUDGET_MS)
    table.add(f"{name}: ranks, made on the worker's thread", f"{result['grid_ms'] + result['findings_ms']:.0f} ms")
    table.add(f"{name}: sums of collectives, made there, too", f"{result['collectives_ms']:.0f} ms")


def live(options, table):
    with tempfile.TemporaryDirectory(prefix="shardscope-bench-") as folder:
        result = bench(options, "live", folder)
    delay = result["from_commit"]
    table.add(f"Commit to the end of the frame that has the row, {result['commits']} commits, p50 / p95 / max",
              f"{delay['median']:.0f} / {delay['p95']:.0f} / {delay['max']:.0f} ms", f"p95 <= {LAG_BUDGET_MS:g} ms",
              delay["p95"] <= LAG_BUDGET_MS)


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def environment(home):
    return dict(os.environ, XDG_CONFIG_HOME=home, LIBGL_ALWAYS_SOFTWARE="1")


def start(options, table):
    program = options.build / "bin" / "shardscope"
    times = []
    with tempfile.TemporaryDirectory() as home:
        for _ in range(6):
            before = time.monotonic_ns()
            done = subprocess.run([program, "open", "--one-frame"], cwd=home, env=environment(home), check=True, capture_output=True, text=True)
            times.append((int(done.stdout) - before) / 1e6)
    warm = statistics.median(times[1:])
    table.add("Start to the first frame on screen, warm, no run (software OpenGL under Xvfb)", f"{warm:.0f} ms", "< 300 ms", warm < 300)


def idle(options, folder, what, settle_s, table):
    with tempfile.TemporaryDirectory() as home:
        app = subprocess.Popen([options.build / "bin" / "shardscope", "open", folder], cwd=home, env=environment(home))
        try:
            time.sleep(settle_s)
            seconds = 3 if options.quick else IDLE_S
            before = cpu_seconds(app.pid)
            time.sleep(seconds)
            if app.poll() is not None:
                sys.exit("app: the window ended by itself")
            share = (cpu_seconds(app.pid) - before) / seconds
        finally:
            app.kill()
            app.wait()
    table.add(f"Idle, {what}", f"{share * 100:.2f} % of a core", "< 0.5 %", share < 0.005)


def idle_paused(options, table):
    if not (options.build / "bin" / "shardscope-train").exists():
        table.add("Idle, live run that is paused", "not measured: no shardscope-train in this build")
        return
    with tempfile.TemporaryDirectory(prefix="shardscope-bench-") as folder:
        training = Training(options.build, folder, *TINY)
        try:
            training.control.ask(do="pause")
            idle(options, training.run, "live run that is paused", 8, table)
        finally:
            training.control.close()
            training.kill()


def windows(options, sizes, table):
    start(options, table)
    name, folder = sizes[0]
    idle(options, folder, f"finished trace of {name} spans", 3 if options.quick else 15, table)
    idle_paused(options, table)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--traces", type=pathlib.Path, default=ROOT / "build" / "bench-traces", help="where the large traces are kept")
    parser.add_argument("--quick", action="store_true", help="a smoke run on a small trace")
    parser.add_argument("--large", action="store_true", help="also 100 M op runs: 14 GB of disk, a quarter of an hour more")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.traces = options.traces.resolve()
    if not options.inside:
        if shutil.which("xvfb-run") is None:
            sys.exit("app: xvfb-run is missing; run scripts/setup")
        command = ["xvfb-run", "-a", "-s", "-screen 0 1700x1000x24", sys.executable, __file__, *sys.argv[1:], "--inside"]
        sys.exit(subprocess.run(command).returncode)
    sizes = [("200 k", 200_000)] if options.quick else [("1 M", 1_000_000), ("10 M", 10_000_000)]
    sizes += [("100 M", 100_000_000)] if options.large else []
    sizes = [(name, trace(options, op_runs)) for name, op_runs in sizes]
    table = Table()
    for name, folder in sizes:
        first_frames(options, name, folder, table)
        frames(options, name, folder, table)
    ranks(options, table)
    live(options, table)
    windows(options, sizes, table)
    print()
    table.print()


if __name__ == "__main__":
    main()
