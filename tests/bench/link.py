#!/usr/bin/env python3
"""Exposed communication of each prefetch policy on the emulated link, beside the closed form of its queue."""
import argparse
import pathlib
import sqlite3
import statistics
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from trainings import train  # noqa: E402

WARM_UP_STEPS = 2
POLICIES = {  # name: (prefetch.backward, prefetch.forward)
    "none": ("none", 0),
    "forward": ("none", 1),
    "pre": ("pre", 0),
    "post": ("post", 0),
    "both": ("pre", 1),
}
RUN_AHEADS = (0, -1)


@dataclass
class Times:
    """Milliseconds of each unit, in forward order: compute as measured, collectives as the link is stated."""

    forward: list[float]
    backward: list[float]
    all_gather: list[float]
    reduce_scatter: list[float]
    # Compute that follows the last reduction hides nothing; the norm's all-reduce stands between.
    norm: float
    replicas: list[float] = field(default_factory=list)  # of strategy=hybrid: each shard's all-reduce, which has a queue of its own


class Queue:
    """A communicator: one collective after the other."""

    def __init__(self) -> None:
        self.end = 0.0
        self.intervals: list[tuple[float, float]] = []

    def add(self, not_before: float, duration: float) -> float:
        start = max(self.end, not_before)
        self.end = start + duration
        self.intervals.append((start, self.end))
        return self.end


def union(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def overlap(a: list[tuple[float, float]], b: list[tuple[float, float]]) -> float:
    """Length of the intersection of two unions of intervals; the intervals within each list are disjoint."""
    return sum(max(0.0, min(end, other_end) - max(start, other_start)) for start, end in a for other_start, other_end in b)


def exposed_length(communication: list[tuple[float, float]], compute: list[tuple[float, float]]) -> float:
    """Of communication, whose intervals may overlap, the part in which no op of compute runs; those follow one another."""
    communication = union(communication)
    return sum(end - start for start, end in communication) - overlap(communication, compute)


def closed_form(times: Times, backward: str, forward_prefetch: int, run_ahead: int) -> float:
    """Exposed ms of a step: the recurrences of a communicator's queue, or two (FSDP1 order, no copies, no limiter).

    Forward: all-gather k follows all-gather k-1, and a host that waits (run_ahead = 0) issues it only when forward k-1 is done,
    or k-2 if it prefetches. Backward: pre and post queue AG(k-1) before RS(k), none behind it; a host that waits issues
    AG(k-1) after backward k+1 (pre) or k (post).
    """
    last = len(times.forward) - 1
    shards, replicas = Queue(), Queue()
    compute: list[tuple[float, float]] = []

    def run(ready: float, duration: float) -> float:
        start = max(compute[-1][1] if compute else 0.0, ready)
        compute.append((start, start + duration))
        return start + duration

    waits = run_ahead == 0
    ends: list[float] = []
    for unit in range(last + 1):
        held = unit - 1 - (1 if forward_prefetch else 0)
        issued = ends[held] if waits and held >= 0 else 0.0
        ends.append(run(shards.add(issued, times.all_gather[unit]), times.forward[unit]))

    gathered = {last: shards.add(ends[last] if waits else 0.0, times.all_gather[last])}
    previous_end = ends[last]
    for unit in range(last, -1, -1):
        prefetched = unit > 0 and backward != "none"
        if prefetched and backward == "pre":
            gathered[unit - 1] = shards.add(previous_end if waits else 0.0, times.all_gather[unit - 1])
        end = run(gathered[unit], times.backward[unit])
        if prefetched and backward == "post":
            gathered[unit - 1] = shards.add(end if waits else 0.0, times.all_gather[unit - 1])
        reduced = shards.add(end, times.reduce_scatter[unit])
        if times.replicas:
            replicas.add(reduced, times.replicas[unit])
        if unit > 0 and not prefetched:
            gathered[unit - 1] = shards.add(end, times.all_gather[unit - 1])
        previous_end = end
    shards.add(replicas.end, times.norm)
    return exposed_length(shards.intervals + replicas.intervals, compute)


def seconds(text: str) -> float:
    for unit, factor in (("us", 1e-6), ("ms", 1e-3), ("ns", 1e-9), ("s", 1.0)):
        if text.endswith(unit):
            return float(text[: -len(unit)]) * factor
    raise ValueError(text)


def bytes_per_second(text: str) -> float:
    for unit, factor in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3), ("B/s", 1.0)):
        if text.endswith(unit):
            return float(text[: -len(unit)]) * factor
    raise ValueError(text)


def open_trace(run: pathlib.Path) -> sqlite3.Connection:
    (trace,) = run.glob("trace-*.db")
    return sqlite3.connect(f"{trace.as_uri()}?mode=ro", uri=True)


def unit_times(trace: sqlite3.Connection) -> Times:
    """Medians over ranks and steps of the compute of each unit; collectives by latency + wire bytes / bandwidth of their dimension."""
    config = dict(trace.execute("SELECT key, value FROM config"))

    def link(dimension: str, what: str) -> str:
        return config[f"link.{dimension}.{what}"] or config[f"link.{what}"]

    def transfer_ms(dimension: str, size: int) -> float:
        return 1e3 * (seconds(link(dimension, "latency")) + size / bytes_per_second(link(dimension, "bandwidth")))

    compute: dict[tuple[str, str], dict[tuple[int, int], float]] = defaultdict(lambda: defaultdict(float))
    rows = trace.execute(
        "SELECT p.phase, p.segment, r.rank, r.step, (r.ended_ns - r.started_ns) / 1e6 FROM op_run r JOIN plan_op p ON p.id = r.plan_op"
        " WHERE p.kind IN ('forward', 'backward') AND r.step >= ?", (WARM_UP_STEPS,))
    for phase, segment, rank, step, ms in rows:
        compute[segment.split(".")[0], phase][rank, step] += ms
    wire = {(unit, kind): transfer_ms(communicator, size) for unit, kind, communicator, size in trace.execute(
        "SELECT DISTINCT unit, kind, communicator, wire_bytes FROM plan_op WHERE unit <> '' AND kind IN ('all_gather', 'reduce_scatter', 'all_reduce')")}
    order = [unit for (unit,) in trace.execute(
        "SELECT unit FROM plan_op WHERE kind = 'all_gather' AND phase = 'forward' GROUP BY unit ORDER BY MIN(id)")]

    def median(unit: str, phase: str) -> float:
        return statistics.median(compute[unit, phase].values())

    return Times([median(u, "forward") for u in order], [median(u, "backward") for u in order],
                 [wire[u, "all_gather"] for u in order], [wire[u, "reduce_scatter"] for u in order], transfer_ms("shard", 0),
                 [wire[u, "all_reduce"] for u in order if (u, "all_reduce") in wire])


@dataclass
class Measured:
    """Medians over ranks and steps, in ms. `late` is the part of the exposed time in which another rank had not arrived yet."""

    step: float
    slot_wait: float
    exposed: float
    late: float


def measured(trace: sqlite3.Connection) -> Measured:
    steps: dict[tuple[int, int], tuple[list, list]] = defaultdict(lambda: ([], []))
    for rank, step, start, end in trace.execute(
            "SELECT r.rank, r.step, r.started_ns / 1e6, r.ended_ns / 1e6 FROM op_run r JOIN plan_op p ON p.id = r.plan_op"
            " WHERE p.category IN ('compute', 'optimizer') AND r.step >= ?", (WARM_UP_STEPS,)):
        steps[rank, step][0].append((start, end))
    for rank, step, arrived, end in trace.execute(
            "SELECT c.rank, c.step, MAX(r.started_ns) OVER (PARTITION BY c.communicator, c.sequence) / 1e6, r.ended_ns / 1e6"
            " FROM collective c JOIN op_run r ON r.id = c.op_run WHERE c.step >= ?", (WARM_UP_STEPS,)):
        steps[rank, step][1].append((arrived, end))
    transfer = statistics.median(exposed_length(communication, compute) for compute, communication in steps.values())
    rows = trace.execute("SELECT exposed_ms, slot_wait_ms, step_ms FROM v_step WHERE step >= ?", (WARM_UP_STEPS,)).fetchall()
    exposed, slot_wait, step = (statistics.median(column) for column in zip(*rows))
    return Measured(step, slot_wait, exposed, exposed - transfer)


def link_trace(build: pathlib.Path, run: pathlib.Path, ranks: int, steps: int, settings: list[str]) -> sqlite3.Connection:
    return open_trace(train(build, run, ranks, f"train.steps={steps}", "preset=fsdp1", "prefetch.limit=0", "model.layers=8",
                            "transport=emulated", *settings))


def table(build: pathlib.Path, ranks: int, steps: int, folder: pathlib.Path) -> None:
    found = link_trace(build, folder / f"auto-{ranks}", ranks, 8, ["link.bandwidth=auto:0.6"])
    (bandwidth,) = found.execute("SELECT new_value FROM marker WHERE key = 'link.bandwidth' ORDER BY id DESC LIMIT 1").fetchone()
    print(f"\n{ranks} ranks, link.bandwidth={bandwidth} (what auto:0.6 found), {steps} steps:\n")
    print("| prefetch | run-ahead | step | slot wait | exposed | rank late | closed form | (exposed - late) / closed | |")
    print("|---|---|---|---|---|---|---|---|---|")
    for run_ahead in RUN_AHEADS:
        for name, (backward, forward) in POLICIES.items():
            trace = link_trace(build, folder / f"{ranks}{name}{run_ahead}", ranks, steps,
                          [f"link.bandwidth={bandwidth}", f"prefetch.backward={backward}", f"prefetch.forward={forward}",
                           f"host.run_ahead={run_ahead}"])
            seen = measured(trace)
            expected = closed_form(unit_times(trace), backward, forward, run_ahead)
            ratio = (seen.exposed - seen.late) / expected
            if seen.slot_wait > 0.01 * seen.step:
                verdict = "slots are waited for"
            else:
                verdict = "PASS" if abs(ratio - 1) <= 0.15 else "MISS"
            print(f"| {name} | {'unlimited' if run_ahead < 0 else run_ahead} | {seen.step:.0f} ms | {seen.slot_wait:.1f} ms |"
                  f" {seen.exposed:.1f} ms | {seen.late:.1f} ms | {expected:.1f} ms | {ratio:.2f} | {verdict} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true", help="few steps: to see that it runs")
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for ranks in options.ranks:
            table(options.build, ranks, 6 if options.quick else 16, pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
