"""One PyTorch rank of the speed table: for each line `STEPS` on stdin runs so many steps and answers with one JSON line.

Arguments: strategy (of trainers.py), layers, dim, heads, seq, batch, micro-batches. Ends when stdin does.
"""

import json
import re
import resource
import sys
import time

import torch

from model import ByteGpt
from ranks import run
from trainers import shares_samples, trainer_of


def peak_resident_bytes() -> int:
    with open("/proc/self/status") as status:
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read()).group(1)) * 1024


def cpu_ns() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return int((used.ru_utime + used.ru_stime) * 1e9)


def serve(rank: int, _: int) -> None:
    strategy = sys.argv[1]
    layers, dim, heads, seq, batch, micro_batches = map(int, sys.argv[2:])
    torch.manual_seed(0)
    trainer = trainer_of(ByteGpt(layers, dim, heads, seq), strategy, learning_rate=1e-3)
    torch.manual_seed(1 if shares_samples(strategy) else 1 + rank)
    print(json.dumps({"ready": strategy}), flush=True)
    for line in sys.stdin:
        cpu_start_ns, steps_ns = cpu_ns(), []
        for _ in range(int(line)):
            samples = [torch.randint(0, 256, (batch, seq + 1)) for _ in range(micro_batches)]
            start_ns = time.monotonic_ns()
            trainer.step(samples)
            steps_ns.append(time.monotonic_ns() - start_ns)
        print(json.dumps({"steps_ns": steps_ns, "cpu_ns": cpu_ns() - cpu_start_ns, "peak_bytes": peak_resident_bytes()}),
              flush=True)


if __name__ == "__main__":
    run(serve)
