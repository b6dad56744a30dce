#!/usr/bin/env python3
"""How much later than asked a collective on the emulated link ends, from 20 us to 20 ms."""
import argparse
import pathlib
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from link import link_trace, seconds  # noqa: E402

ASKED = ("20us", "50us", "100us", "200us", "500us", "1ms", "5ms", "20ms")
# The link is free at every arrival: FSDP1's order has one communicator, and its bytes take no time. Ends after the last rank's arrival.
SQL = ("SELECT r.ended_ns - max(r.started_ns) OVER (PARTITION BY c.communicator, c.sequence) FROM collective c"
       " JOIN op_run r ON r.id = c.op_run WHERE c.step >= 2")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true", help="few steps: to see that it runs")
    parser.add_argument("--ranks", type=int, nargs="*", default=[2])
    options = parser.parse_args()
    steps = 4 if options.quick else 12
    print("| ranks | asked | collectives | late, p50 | p95 | p50 of what was asked | |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for ranks in options.ranks:
            for asked in ASKED:
                trace = link_trace(options.build, pathlib.Path(folder) / f"{ranks}-{asked}", ranks, steps, [
                    "model.dim=16", "model.heads=2", "model.layers=2", "model.seq=16", "train.batch=1", "link.bandwidth=1000GB/s", f"link.latency={asked}"])
                asked_us = 1e6 * seconds(asked)
                late = sorted(row[0] / 1e3 - asked_us for row in trace.execute(SQL))
                p50, p95 = statistics.median(late), late[int(0.95 * (len(late) - 1))]
                verdict = "PASS" if p50 <= max(5, 0.03 * asked_us) else "MISS"
                print(f"| {ranks} | {asked} | {len(late)} | {p50:.1f} us | {p95:.1f} us | {p50 / asked_us:.1%} | {verdict} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
