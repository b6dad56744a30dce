#!/usr/bin/env python3
"""seeds.py FOLDER: small inputs from which the fuzzer starts, one folder a target of scripts/fuzz.

seeds.py --imports prints the targets that are formats of trace/import.
"""

import gzip
import pathlib
import random
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import chrome_traces  # noqa: E402
import nsys_traces  # noqa: E402
import pickles  # noqa: E402

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
{"shardscope_tail":1,"schema":2,"run":"a"}
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


def cupti_seeds():
    """Records of every kind that is decoded, with plausible small numbers: FuzzCupti's own walker knows their sizes."""
    chosen = random.Random(2)
    sizes = {10: 216, 1: 96, 22: 96, 2: 88, 4: 40, 5: 40, 38: 56, 36: 56, 49: 128, 17: 56, 37: 24, 39: 24}
    for _ in range(8):
        buffer = bytes([0] * 8)
        for _ in range(12):
            kind = chosen.choice(sorted(sizes))
            words = [kind] + [chosen.choice([0, 1, 2, 7, 100, 1000]) for _ in range(sizes[kind] // 4 - 1)]
            buffer += b"".join(word.to_bytes(4, "little") for word in words)
        yield buffer


def nsys_seeds():
    """A step of FSDP2, exported by Nsight Systems of each age."""
    with tempfile.TemporaryDirectory() as folder:
        for version in nsys_traces.VERSIONS:
            export = nsys_traces.Export(version)
            chrome_traces.fsdp2_step(0, trace=nsys_traces.Process(export, rank=0))
            yield export.write(pathlib.Path(folder) / "export", page_bytes=512).read_bytes()


def kineto_seeds():
    """The same step, as text, cut and packed, and a small file of each form of an event."""
    for rank in (0, 1):
        text = chrome_traces.fsdp2_step(rank).text().encode()
        yield text
        yield text[:len(text) // 2]
        yield gzip.compress(text)
    yield (b'[{"ph":"B","name":"a","pid":1,"tid":1,"ts":1},{"ph":"E","pid":1,"tid":1,"ts":2.5},'
           b'{"ph":"C","name":"c","pid":1,"ts":3,"args":{"x":1.5}},{"ph":"M","name":"process_name","pid":1,"args":{"name":"p"}},'
           b'{"ph":"i","name":"[memory]","ts":4,"pid":1,"tid":1,"args":{"Bytes":512,"Device Id":0,"Device Type":1}},'
           b'{"ph":"X","cat":"cuda_sync","name":"Stream Wait Event","pid":0,"tid":7,"ts":5,"dur":0,'
           b'"args":{"stream":7,"wait_on_stream":20,"wait_on_cuda_event_record_corr_id":9}},'
           b'{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD","pid":0,"tid":7,"ts":6,"dur":1e1,"args":{"bytes":4096,"stream":7,"device":0}}]')


def memory_snapshot_seeds():
    """In every protocol of pickles, and as JSON."""
    yield from pickles.forms(pickles.known_snapshot().value()).values()


def flight_recorder_seeds():
    """Likewise."""
    flight = pickles.Flight(0)
    flight.ask("nccl:all_gather")
    flight.ask("nccl:send 0->1", "started", is_p2p=True)
    flight.ask("nccl:all_reduce", "scheduled", sizes=((4, 2), (3,)))
    yield from pickles.forms(flight.value(), flight.json_value()).values()


IMPORTS = {"kineto": kineto_seeds, "nsys": nsys_seeds, "memory_snapshot": memory_snapshot_seeds, "flight_recorder": flight_recorder_seeds}


def main():
    if sys.argv[1] == "--imports":
        print(*IMPORTS)
        return
    folder = pathlib.Path(sys.argv[1])
    seeds = {"trace": list(trace_seeds()), "schedule": list(schedule_seeds()), "toml": [TOML.encode()],
             "control": [line.encode() for line in CONTROL], "tail": [TAIL.encode()], "cupti": list(cupti_seeds()),
             **{name: list(made()) for name, made in IMPORTS.items()}}
    for target, inputs in seeds.items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        for number, content in enumerate(inputs):
            (folder / target / f"seed-{number}").write_bytes(content)


if __name__ == "__main__":
    main()
