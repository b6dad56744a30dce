#!/usr/bin/env python3
"""Exposed communication of `full` and `hybrid` where one dimension of the mesh is fast and one slow, beside the closed form."""
import argparse
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from link import closed_form, link_trace, measured, unit_times  # noqa: E402

RANKS = 4
FAST, SLOW = "1000MB/s", "100MB/s"
BACKWARD, FORWARD, RUN_AHEAD = "pre", 0, -1
TOLERANCE = 0.15
# Two ranks in each of two nodes: all-gathers of all four go from node to node, those of two stay inside.
STRATEGIES = {
    "full": ("strategy=full", f"link.shard.bandwidth={SLOW}"),
    "hybrid": ("strategy=hybrid", "mesh.shard=2", "mesh.replicate=2", f"link.shard.bandwidth={FAST}", f"link.replicate.bandwidth={SLOW}"),
}
# Few tokens: four ranks on two cores need compute slots for a small part of a step.
MODEL = ("model.seq=16", "train.batch=1")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true", help="few steps: to see that it runs")
    options = parser.parse_args()
    steps = 6 if options.quick else 30
    print(f"{RANKS} ranks, {SLOW} between nodes and {FAST} inside, {', '.join(MODEL)}, prefetch.backward={BACKWARD}, {steps} steps:\n")
    print("| strategy | step | slot wait | exposed | rank late | closed form | (exposed - late) / closed | |\n|---|---|---|---|---|---|---|---|")
    exposed = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, settings in STRATEGIES.items():
            trace = link_trace(options.build, pathlib.Path(folder) / name, RANKS, steps, [
                *MODEL, *settings, f"prefetch.backward={BACKWARD}", f"prefetch.forward={FORWARD}", f"host.run_ahead={RUN_AHEAD}"])
            seen = measured(trace)
            expected = closed_form(unit_times(trace), BACKWARD, FORWARD, RUN_AHEAD)
            ratio, exposed[name] = (seen.exposed - seen.late) / expected, (seen.exposed, expected)
            print(f"| `{name}` | {seen.step:.0f} ms | {seen.slot_wait:.1f} ms | {seen.exposed:.1f} ms | {seen.late:.1f} ms | {expected:.1f} ms |"
                  f" {ratio:.2f} | {'PASS' if abs(ratio - 1) <= TOLERANCE else 'MISS'} |", flush=True)
    print("| `hybrid` / `full` | | | {:.2f} | | {:.2f} | | |".format(*(mine / whole for mine, whole in zip(exposed["hybrid"], exposed["full"]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
