#!/usr/bin/env python3
"""Peak memory that each policy's Schedule predicts, beside what a run recorded, what its allocators counted, and RSS."""
import argparse
import contextlib
import os
import pathlib
import re
import sqlite3
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from trainings import train  # noqa: E402

RANKS = 2
TRANSIENT = ("unsharded_parameter", "communication_buffer")
KIND_IS_TRANSIENT = {"unsharded", "cast_shard", "all_gather_output", "reduce_scatter_input", "reduce_scatter_output"}
POLICIES = (
    "preset=fsdp2",
    "preset=fsdp2 prefetch.backward=none",
    "preset=fsdp2 prefetch.backward=post prefetch.forward=1",
    "preset=fsdp2 prefetch.backward_depth=3 prefetch.forward=3",
    "preset=fsdp2 prefetch.limit=1 prefetch.forward=2 host.run_ahead=0",
    "preset=fsdp2 precision.param=bf16",
    "preset=fsdp2 train.micro_batches=2",
    "preset=fsdp2 reshard_after_forward=false",
    "preset=fsdp2 strategy=grad_op",
    "preset=fsdp2 strategy=no_shard",
    "preset=fsdp1",
    "preset=fsdp1 prefetch.backward=none",
    "preset=fsdp1 prefetch.forward=1 prefetch.limit=2",
    "preset=fsdp1 precision.param=bf16 train.micro_batches=2",
    "preset=fsdp1 strategy=grad_op",
    "preset=fsdp1 strategy=no_shard unit.root=true",
)
# What no Schedule lists carries a name: gaps that align parameters (the unit's), tables of the process.
LISTED = "category <> 'temporary' AND NOT (category = 'other' AND unit <> '')"


def predicted_transient(schedule: str) -> int:
    """Peak of unsharded parameters and communication buffers in host order, from the text of the Schedule alone."""
    sizes = {int(number): int(size) if kind in KIND_IS_TRANSIENT else 0
             for number, kind, size in re.findall(r"^ *buffer (\d+) (\w+) .*?bytes=(\d+)", schedule, re.M)}
    live = peak = 0
    for line in re.findall(r"^ *op .*$", schedule, re.M):
        live += sum(sizes[buffer] for buffer in buffers(line, "alloc"))
        peak = max(peak, live)
        live -= sum(sizes[buffer] for buffer in buffers(line, "free"))
    return peak


def buffers(line: str, key: str) -> list[int]:
    found = re.search(rf" {key}=([\d,]+)", line)
    return [int(number) for number in found.group(1).split(",")] if found else []


def peak(database: sqlite3.Connection, rank: int, where: str, ledger: str) -> int:
    live = highest = 0
    for (size,) in database.execute(f"SELECT bytes FROM memory_event WHERE rank = ? AND {where} ORDER BY {ledger}, id", (rank,)):
        live += size
        highest = max(highest, live)
    return highest


def unaccounted(database: sqlite3.Connection) -> int:
    """Largest difference, over ranks and step ends, of what the allocators counted and the sum of all events until then."""
    rows = database.execute("""
        SELECT abs(c.value - (SELECT sum(bytes) FROM memory_event m WHERE m.rank = t.rank AND m.executed_ns <= c.time_ns))
        FROM counter c JOIN track t ON t.id = c.track JOIN string s ON s.id = c.name_string WHERE s.text = 'allocated_bytes'""")
    return max(int(row[0]) for row in rows)


def counter(database: sqlite3.Connection, name: str) -> list[float]:
    return [row[0] for row in database.execute(
        "SELECT c.value FROM counter c JOIN string s ON s.id = c.name_string WHERE s.text = ? ORDER BY c.time_ns", (name,))]


def measure(build: pathlib.Path, data: pathlib.Path, policy: str, quick: bool) -> dict:
    size = ["model.layers=3", "model.dim=64"] if quick else ["model.layers=6", "model.dim=512"]
    with tempfile.TemporaryDirectory() as folder:
        run = train(build, pathlib.Path(folder) / "run", RANKS, f"data.path={data}", "transport=shared_memory", "model.heads=8",
                    "model.seq=64", "train.batch=1", "train.steps=3", *size, *policy.split())
        trace, = run.glob("trace-*.db")
        with contextlib.closing(sqlite3.connect(trace)) as database:
            (text, predicted, bound), = database.execute(
                "SELECT s.text, s.predicted_peak_bytes, b.executed_peak_bytes FROM schedule s JOIN schedule_bound b ON b.schedule = s.id")
            return {
                "predicted": predicted,
                "issue": {peak(database, rank, LISTED, "issued_ns") for rank in range(RANKS)},
                "predicted_transient": predicted_transient(text),
                "transient": {peak(database, rank, f"category IN {TRANSIENT}", "issued_ns") for rank in range(RANKS)},
                "bound": bound,
                "execution": max(peak(database, rank, "true", "executed_ns") for rank in range(RANKS)),
                "unaccounted": unaccounted(database),
                "reserved": max(counter(database, "reserved_bytes")),
                "resident": counter(database, "resident_bytes")[-1],
            }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true", help="a smoke run: a small model, three policies")
    options = parser.parse_args()
    trainer = options.build / "bin" / "shardscope-train"
    if not os.access(trainer, os.X_OK):
        print(f"memory: {trainer} is not there; run scripts/build first", file=sys.stderr)
        return 2
    data = ROOT / "engine"
    print("MB (10^6 bytes) of the rank that needs most; peaks are equal or not to the byte. *Predicted*: by the Schedule; *issue*: in the")
    print("recorded order of issue, without temporaries; *transient*: unsharded parameters and communication buffers; *execution*: what was")
    print("really live, with temporaries; *bound*: the most of that in any order of execution, by the Schedule; *reserved*: held by its")
    print("allocators; *RSS*: of the process of all ranks, at the end; *unaccounted*: bytes that the allocators counted and no event explains,")
    print("at any step's end.\n")
    print("| policy | predicted | issue | transient: predicted | issue | execution | bound | reserved | RSS | unaccounted | |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for policy in POLICIES[::6] if options.quick else POLICIES:
        row = measure(options.build, data, policy, options.quick)
        passed = (row["issue"] == {row["predicted"]} and row["transient"] == {row["predicted_transient"]}
                  and row["execution"] <= row["bound"] and row["unaccounted"] == 0)
        cells = [row["predicted"], max(row["issue"]), row["predicted_transient"], max(row["transient"]), row["execution"],
                 row["bound"], row["reserved"], row["resident"]]
        print(f"| {policy} | " + " | ".join(f"{cell / 1e6:.1f}" for cell in cells)
              + f" | {row['unaccounted']} B | {'PASS' if passed else 'MISS'} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
