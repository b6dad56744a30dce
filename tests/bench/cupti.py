#!/usr/bin/env python3
"""What CUPTI's records cost to take in (no GPU: those of tests/h200 again and again), at the begin of a long training and at its end."""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from figures import Table  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true", help="a short training")
    parser.add_argument("--dump", type=pathlib.Path, default=ROOT / "tests" / "h200" / "training.buffers",
                        help="another dump of CUPTI's buffers (SHARDSCOPE_CUPTI_DUMP)")
    options = parser.parse_args()
    done = subprocess.run([options.build / "bin" / "cupti_bench", options.dump, "40" if options.quick else "1000"], check=True,
                          capture_output=True, text=True)
    result = json.loads(done.stdout)
    table = Table()
    first, last = ({**result[part], "all": result[part]["add_ns"] + result[part]["take_ns"]} for part in ("first", "last"))
    table.add(f"{result['records'] / 1e6:.1f} M records of {result['seconds']:.0f} s: decoding one", f"{result['decode_ns']:.0f} ns", "", None)
    table.add("joining one, in the first tenth", f"{first['all']:.0f} ns", "", None)
    table.add("joining one, in the last tenth", f"{last['all']:.0f} ns", "<= 1000 ns", last["all"] <= 1000)
    table.add("asking for an op's times at a step's end, in the last tenth", f"{last['peek_op_ns']:.0f} ns", "", None)
    table.add("the last tenth beside the first", f"{last['all'] / first['all']:.2f}", "<= 2", last["all"] <= 2 * first["all"])
    table.print()


if __name__ == "__main__":
    main()
