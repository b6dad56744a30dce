"""Traces like those of GPUs, for the real HolisticTraceAnalysis and for ours: each is made anew, only HTA's answers are kept."""

import pathlib
import random
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from chrome_traces import BASE_US, Trace, fsdp2_step  # noqa: E402

COMPUTE, COMMUNICATION, COPY = "ampere_sgemm_128x64_tn", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "Memcpy HtoD (Pageable -> Device)"


def fsdp2():
    return [fsdp2_step(0), fsdp2_step(1, late_us=40)]


def random_trace(seed, steps=1, unit_ns=1, launches=True):
    """Work on three streams whose lengths are multiples of `unit_ns`, launched before it runs; some of it shorter than a microsecond."""
    chosen = random.Random(seed)
    trace = Trace(rank=0, world_size=1)
    for step in range(steps):
        trace.complete("user_annotation", f"ProfilerStep#{step + 3}", 1, step * 3_000_000, (step + 1) * 3_000_000)
        ready = {7: step * 3_000_000 + 50_000, 20: step * 3_000_000 + 60_000, 21: step * 3_000_000 + 70_000}
        for _ in range(40):
            stream = chosen.choice([7, 7, 7, 20, 21])
            length = chosen.choice([300, 900, 1_500, 7_000, 40_000]) // unit_ns * unit_ns or unit_ns
            start = ready[stream] + chosen.choice([500, 2_000, 35_000, 90_000]) // unit_ns * unit_ns
            ready[stream] = start + length
            name, category = {7: (COMPUTE, "kernel"), 20: (COMMUNICATION, "kernel"), 21: (COPY, "gpu_memcpy")}[stream]
            launched = max(start - chosen.choice([5_000, 30_000, 45_000]) // unit_ns * unit_ns, step * 3_000_000)
            correlation = len(trace.events) + 1
            if launches or chosen.random() < 0.5:
                trace.complete("cuda_runtime", "cudaLaunchKernel", 1, launched, launched + 2 * unit_ns, correlation=correlation)
            trace.complete(category, name, stream, start, start + length, process=0, device=0, context=1, stream=stream, correlation=correlation,
                           bytes=4096)
    return [trace]


def from_a_base(traces):
    """As newer versions write them: small times, and what has to be added to them, which HTA does not know of."""
    for trace in traces:
        trace.events = [re.sub(r'"ts": (\d+)\.', lambda found: f'"ts": {int(found.group(1)) - BASE_US + 5_000}.', event) for event in trace.events]
        trace.values["baseTimeNanoseconds"] = 1_700_000_000_000_000_123
    return traces


def whole(traces):
    """With times that are whole microseconds and written so."""
    for trace in traces:
        trace.events = [event.replace(".000,", ",") for event in trace.events]
    return traces


CASES = {
    "fsdp2": fsdp2,
    "fractions": lambda: from_a_base(random_trace(1)),
    "many_short": lambda: from_a_base(random_trace(2, unit_ns=100)),
    "fractions_of_a_time_of_day": lambda: random_trace(6),
    "whole_microseconds": lambda: whole(random_trace(3, unit_ns=1_000)),
    "steps": lambda: from_a_base(random_trace(4, steps=4)),
    "without_launches": lambda: from_a_base(random_trace(5, launches=False)),
}


def write(name, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for rank, trace in enumerate(CASES[name]()):
        trace.write(folder / f"rank-{rank}.json")
    return folder
