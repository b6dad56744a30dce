#!/usr/bin/env python3
"""What recording costs: writer speed, one record, its share of a training's CPU and step time, 8 ranks without a loss."""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from figures import Table  # noqa: E402
from trainings import Training  # noqa: E402

BUCKETS = ("< 100 ns", "< 1 us", "< 10 us", "< 100 us", "< 1 ms", "1 ms or more")


def bench(options, *arguments):
    with tempfile.TemporaryDirectory(prefix="shardscope-bench-") as folder:
        done = subprocess.run([options.build / "bin" / "recorder_bench", *map(str, arguments), folder], check=True, capture_output=True,
                              text=True)
    return json.loads(done.stdout)


def writer(options, table):
    rows = 500_000 if options.quick else 5_000_000
    results = [bench(options, "writer", rows) for _ in range(1 if options.quick else 3)]
    result = sorted(results, key=lambda r: r["wall_ns"])[len(results) // 2]
    rate = rows / (result["wall_ns"] / 1e9)
    size = result["finished_bytes"] / rows
    table.add(f"Writer, {rows / 1e6:g} M spans on one core", f"{rate / 1e3:,.0f} k spans/s", ">= 500 k/s", rate >= 500e3)
    table.add("Finished file (it took {:.1f} s; live {:.0f} bytes a row)".format(result["finish_ns"] / 1e9, result["live_bytes"] / rows),
              f"{size:.0f} bytes a row", "<= 80", size <= 80)


def one_record(options, table):
    results = [bench(options, "record") for _ in range(3)]
    for key, name in (("span_ns", "span"), ("op_run_ns", "op run"), ("memory_event_ns", "memory event")):
        ns = statistics.median(r[key] for r in results)
        table.add(f"Recording one {name}", f"{ns:.0f} ns", "<= 100 ns" if key == "span_ns" else "", ns <= 100 if key == "span_ns" else None)


def ranks(options, table):
    seconds = 10 if options.quick else options.seconds
    result = bench(options, "ranks", options.rate, seconds)
    table.add(f"8 ranks, {result['rate'] / 1e3:g} k op runs/s in all (as many memory events) for {seconds} s",
              f"{result['dropped']} dropped; writer thread {result['writer_ns'] / seconds / 1e7:.1f} % of a core", "0 dropped",
              result["dropped"] == 0)
    calls = sum(result["histogram"])
    shares = ", ".join(f"{name}: {count:,}" for name, count in zip(BUCKETS, result["histogram"]) if count)
    table.add(f"Its {calls / 1e6:.1f} M calls of Record()", f"{shares}; longest {result['longest_ns'] / 1e6:.2f} ms", "", None)
    table.add("Times a rank gave up the CPU inside a call (a lock, a disk)",
              f"{result['waits']} (in the first two seconds, when it makes its rings: {result['first_waits']})", "0: never blocks",
              result["waits"] == 0)
    table.add("Calls of 1 ms or more in which the rank itself was at work; others, in which something else had its core",
              f"{result['busy_bursts']}; {result['slow_bursts'] - result['busy_bursts']}", "0", result["busy_bursts"] == 0)
    return result


def bound(options, table):
    for max_bytes in (4_000_000, 64_000_000):
        result = bench(options, "bound", max_bytes, 3 if options.quick else 25)
        seconds = result["wall_ns"] / 1e9
        table.add(f"record.max_bytes={max_bytes // 1_000_000}MB, {result['rows'] / 1e6:.1f} M rows in {seconds:.0f} s "
                  f"({result['rows'] / seconds / 1e3:,.0f} k rows/s), folder looked at {result['samples']:,} times",
                  f"largest {result['largest'] / 1e6:.1f} MB; finished {result['finished_bytes'] / 1e6:.1f} MB; "
                  f"{result['dropped'] / result['records']:.1%} of the records removed and counted", f"<= {max_bytes / 1e6:.0f} MB",
                  result["largest"] <= max_bytes)


def cpu_ns(process):
    """CPU time of the recorder's thread, and of all."""
    recorder = total = 0
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        ns = int((task / "schedstat").read_text().split()[0])
        total += ns
        if (task / "comm").read_text().strip() == "recorder":
            recorder += ns
    return recorder, total


def cpu_share(options, table, ns_a_record):
    with tempfile.TemporaryDirectory(prefix="shardscope-bench-") as folder:
        training = Training(options.build, folder)
        before, first = cpu_ns(training.process), training.step()
        time.sleep(5 if options.quick else 30)
        after, last = cpu_ns(training.process), training.step()
        training.end()
        rows, = training.query(f"SELECT (SELECT count(*) FROM op_run WHERE step BETWEEN {first} AND {last - 1}), "
                               f"(SELECT count(*) FROM memory_event WHERE step BETWEEN {first} AND {last - 1})")
    recorder, total = after[0] - before[0], after[1] - before[1]
    calls = sum(rows) * ns_a_record
    share = (recorder + calls) / total
    table.add(f"Recorder's CPU while training (default model, 2 ranks, {sum(rows) / max(1, last - first):.0f} rows a step)",
              f"{share:.2%} (writer thread {recorder / total:.2%}, calls {calls / total:.3%})", "<= 1 %", share <= 0.01)


def step_time(options, table):
    """Recording switched on and off in turn within one training; ratios of neighbouring blocks."""
    block, pairs = (8, 3) if options.quick else (10, 24)
    with tempfile.TemporaryDirectory(prefix="shardscope-bench-") as folder:
        training = Training(options.build, folder)
        edges = []
        for index in range(2 * pairs + 1):
            answer = training.control.ask(set={"record.steps": "all" if index % 2 == 0 else "0:1"})
            if not answer["ok"]:
                raise RuntimeError(f"record.steps was refused: {answer['error']}")
            edges.append(answer["applies_at"])
            training.wait(lambda: training.step() >= edges[-1] + block)
        training.end()
        ends = dict(training.query("SELECT step, max(end_ns) FROM step GROUP BY step"))
        starts = dict(training.query("SELECT step, max(start_ns) FROM step GROUP BY step"))
    # Recorded steps come in blocks; a gap between them is a block without recording.
    steps = sorted(ends)
    times = []  # (is_on, ns a step)
    begin = steps[0]
    for previous, step in zip(steps, steps[1:]):
        if step == previous + 1:
            continue
        times.append((True, (ends[previous - 1] - ends[begin + 1]) / (previous - 1 - begin - 1)))
        times.append((False, (starts[step] - ends[previous]) / (step - previous - 1)))
        begin = step
    ratios = [times[i][1] / times[i + 1][1] for i in range(0, len(times) - 1, 2)][1:]
    rng = random.Random(1)
    means = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(4000))
    on = statistics.median(t for is_on, t in times if is_on)
    off = statistics.median(t for is_on, t in times if not is_on)
    table.add(f"Step time with / without recording, {len(ratios)} alternating pairs of {block} steps",
              f"{statistics.median(ratios):.4f} (95 % confidence {means[100]:.4f} to {means[3899]:.4f}); "
              f"{on / 1e6:.2f} ms against {off / 1e6:.2f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=int, default=300, help="of the 8 ranks")
    parser.add_argument("--rate", type=int, default=20_000, help="op runs a second of the 8 ranks in all")
    parser.add_argument("--only", choices=("writer", "record", "ranks", "bound", "cpu", "step"))
    options = parser.parse_args()
    options.build = options.build.resolve()
    table = Table()
    if options.only in (None, "writer"):
        writer(options, table)
    if options.only in (None, "record"):
        one_record(options, table)
    if options.only in (None, "ranks"):
        ranks(options, table)
    if options.only in (None, "bound"):
        bound(options, table)
    if options.only in (None, "cpu"):
        cpu_share(options, table, bench(options, "record")["op_run_ns"])
    if options.only in (None, "step"):
        step_time(options, table)
    table.print()
    print(f"\nLoad average at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")


if __name__ == "__main__":
    main()
