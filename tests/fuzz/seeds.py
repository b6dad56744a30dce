#!/usr/bin/env python3
"""seeds.py FOLDER: small inputs from which the fuzzer starts, one folder a target (tests/fuzz/targets.h)."""

import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent

TOML = """\
strategy = "full"
train.steps = 10
[link]
bandwidth = "1GB/s"
latency = "20us"
[[change]]
step = 3
key = "prefetch.backward"
value = "none"
"""

CONTROL = [
    '{"shardscope":1,"run":"a"}',
    '{"id":1,"set":{"prefetch.backward":"none","link.bandwidth":"2GB/s"}}',
    '{"id":2,"do":"pause"}',
    '{"id":3,"get":"status"}',
    '{"id":1,"ok":true,"applies_at":4}',
    '{"id":1,"ok":false,"error":"no such key"}',
    '{"id":3,"ok":true,"status":{"run":"a","state":"training","step":1,"steps":9,"values":{"a":"b"},"pending":{}}}',
]

TAIL = """\
{"shardscope_tail":1,"schema":1,"run":"a"}
{"table":"meta","rows":[["name","a"]]}
{"table":"op_run","rows":[[1,1,0,0,1,5,5,5,9,0,4,-1,"none"]]}
{"state":"finished"}
"""


def trace_seeds():
    chosen = random.Random(1)
    for flags in range(16):
        if flags & 4:
            continue
        edits = b"".join(bytes(chosen.randrange(256) for _ in range(6)) for _ in range(flags % 4))
        yield bytes([flags]) + edits


def schedule_seeds():
    # Printed by `shardscope plan --units 1 --ranks 2`, and the example of the documentation.
    yield (HERE / "schedule_seed.txt").read_bytes()
    yield (HERE.parent.parent / "docs" / "schedule.md").read_text().split("```")[1].encode()


def main():
    folder = pathlib.Path(sys.argv[1])
    seeds = {"trace": list(trace_seeds()), "schedule": list(schedule_seeds()), "toml": [TOML.encode()],
             "control": [line.encode() for line in CONTROL], "tail": [TAIL.encode()]}
    for target, inputs in seeds.items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        for number, content in enumerate(inputs):
            (folder / target / f"seed-{number}").write_bytes(content)


if __name__ == "__main__":
    main()
