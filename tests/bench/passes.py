#!/usr/bin/env python3
"""Passes over memory of a step with few tokens: bytes and time of each, beside the memory's own speed in the same run."""
import argparse
import contextlib
import multiprocessing
import pathlib
import sqlite3
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from trainings import train  # noqa: E402

RANKS = 2
WARM_UP_STEPS = 2
MODEL = ("model.layers=4", "model.dim=896", "model.heads=14", "model.seq=24", "train.batch=1")
POLICIES = ("strategy=ddp", "preset=fsdp2", "preset=fsdp1", "preset=double_buffer")
COPIED = 256 * 2 ** 20  # much more than caches hold
# Bytes that a rank reads and writes, of the payload (a unit's whole parameters or gradient) with N ranks. The transport
# of threads: a rank reads the others' memory and writes its own.
PASSES = {
    "all_gather": lambda payload, n: 2 * payload * (n - 1) // n,
    "copy_in of the shard": lambda payload, n: 2 * payload // n,
    "copy_out": lambda payload, n: 2 * payload,
    "copy_in of the gradient": lambda payload, n: 2 * payload,
    "reduce_scatter": lambda payload, n: payload + payload // n,
    "all_reduce": lambda payload, n: payload + 2 * payload // n + payload * (n - 1) // n,
}
# Shards: parameter, gradient and both moments are read, all but the gradient written.
OPTIMIZER_FLOATS = 7


def copy_speed(ready, speeds):
    source, target = b"\1" * COPIED, memoryview(bytearray(COPIED))  # of its own pages; a view is copied to as it is, by memcpy
    ready.wait()
    best = 0.0
    for _ in range(5):
        start = time.perf_counter()
        target[:] = source
        best = max(best, 2 * COPIED / (time.perf_counter() - start))
    speeds.put(best)


def memory_speed():
    """Bytes a second that each of so many processes as ranks reads and writes when all copy at once."""
    ready, speeds = multiprocessing.Barrier(RANKS), multiprocessing.Queue()
    copiers = [multiprocessing.Process(target=copy_speed, args=(ready, speeds)) for _ in range(RANKS)]
    for copier in copiers:
        copier.start()
    found = [speeds.get() for _ in copiers]
    for copier in copiers:
        copier.join()
    return statistics.mean(found)


def passes(database):
    """By kind: bytes and ms of a rank and step, both medians over ranks and steps. A collective runs from its last rank's arrival."""
    payloads = dict(database.execute("SELECT unit, max(payload_bytes) FROM plan_op WHERE unit <> '' GROUP BY unit"))
    (is_sharded,), = database.execute("SELECT count(*) > 0 FROM plan_op WHERE kind = 'reduce_scatter'")
    rows = database.execute(f"""
        SELECT CASE WHEN p.kind <> 'copy_in' THEN p.kind WHEN p.stream = 'all_gather_copy_in' THEN 'copy_in of the shard'
                    ELSE 'copy_in of the gradient' END, p.unit, r.rank, r.step, r.ended_ns - coalesce(max(CASE WHEN c.id IS NULL THEN NULL ELSE r.started_ns END)
               OVER (PARTITION BY c.communicator, c.sequence), r.started_ns)
        FROM op_run r JOIN plan_op p ON p.id = r.plan_op LEFT JOIN collective c ON c.op_run = r.id
        WHERE r.step >= {WARM_UP_STEPS} AND p.unit <> ''""")
    bytes_of, ns_of = {}, {}
    for kind, unit, rank, step, ns in rows:
        if kind == "optimizer":
            size = OPTIMIZER_FLOATS * payloads[unit] // (RANKS if is_sharded else 1)
        elif kind in PASSES:
            size = PASSES[kind](payloads[unit], RANKS)
        else:
            continue
        key = (rank, step)
        bytes_of.setdefault(kind, {})[key] = bytes_of.get(kind, {}).get(key, 0) + size
        ns_of.setdefault(kind, {})[key] = ns_of.get(kind, {}).get(key, 0) + ns
    return {kind: (statistics.median(bytes_of[kind].values()), statistics.median(ns_of[kind].values()) / 1e6) for kind in bytes_of}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true", help="few steps: to see that it runs")
    options = parser.parse_args()
    speed = memory_speed()
    print(f"{RANKS} ranks, {', '.join(MODEL)}. A copy by each rank's core at once reads and writes {speed / 1e9:.1f} GB/s; *of it*: what the pass\n"
          "reaches. Bytes are those read and written by a rank in a step.\n")
    print("| policy | step | pass | bytes | time | of it |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for at, policy in enumerate(POLICIES):
            run = train(options.build, pathlib.Path(folder) / str(at), RANKS, policy, f"data.path={ROOT / 'engine'}", *MODEL,
                        f"train.steps={WARM_UP_STEPS + (4 if options.quick else 20)}")
            trace, = run.glob("trace-*.db")
            with contextlib.closing(sqlite3.connect(f"{trace.as_uri()}?mode=ro", uri=True)) as database:
                found = passes(database)
                (step,), = database.execute(
                    f"SELECT avg(took) FROM (SELECT max(end_ns - start_ns) / 1e6 AS took FROM step WHERE step >= {WARM_UP_STEPS} GROUP BY step)")
            for number, (kind, (size, ms)) in enumerate(found.items()):
                first = (f"`{policy}`", f"{step:.0f} ms") if number == 0 else ("", "")
                print(f"| {first[0]} | {first[1]} | {kind} | {size / 1e6:.0f} MB | {ms:.1f} ms | {size / (ms / 1e3) / speed:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
