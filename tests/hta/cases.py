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
            copied = {"bytes": 4096, "memory bandwidth (GB/s)": 4096 / length} if stream == 21 else {}
            trace.complete(category, name, stream, start, start + length, process=0, device=0, context=1, stream=stream, correlation=correlation,
                           **copied)
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


# Names that HTA and PyTorch take for this or that.
KERNELS = ["ampere_sgemm_128x64_tn", "void at::native::vectorized_elementwise_kernel<4>(int)", "memset_zero_kernel", "batched_Memset", "my dma kernel",
           "nccl_without_it", "hipKernel", "void ncclKernel_of_a_template()", "copyMemcpyKernel", "gridSyncAll"]
COLLECTIVES = ["ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)",
               "ncclSymkDevKernel_ReduceScatter"]
COPIES = ["Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pinned)", "Memcpy DtoD (Device -> Device)", "Memset (Device)"]
LAUNCHES = ["cudaLaunchKernel", "cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "cudaLaunchCooperativeKernel"]
MOST_STREAM = 4_294_967_295  # of waits of the host, in files of older versions


class Mixed:
    """One rank's trace of all that HTA treats in its own way; its events stand in the file by their starts."""

    def __init__(self, seed, rank, ranks, steps, unit_ns):
        self.chosen = random.Random(f"{seed} {rank}")
        self.trace = Trace(rank=rank, process=100 + rank, world_size=ranks)
        self.unit_ns = unit_ns
        self.correlation = 100
        self.keys = []
        self.host_ns = 0
        for step in range(max(steps, 1)):
            self.step(step, marked=steps > 0)
        order = sorted(range(len(self.keys)), key=self.keys.__getitem__)
        self.trace.events = [self.trace.events[at] for at in order]

    def complete(self, category, name, thread, start_ns, length_ns, process=None, **arguments):
        start_ns, length_ns = (value // self.unit_ns * self.unit_ns for value in (start_ns, length_ns))
        self.trace.complete(category, name, thread, start_ns, start_ns + length_ns, process=process, **arguments)
        self.keys.append((start_ns, -length_ns))

    def call(self, name, start_ns, length_ns=900):
        self.correlation += 1
        category = "cuda_runtime" if name.startswith("cuda") else "cuda_driver"
        self.complete(category, name, 1, start_ns, length_ns, correlation=self.correlation)
        return {"device": 0, "context": 1, "correlation": self.correlation}

    def step(self, number, marked):
        chosen, first_ns = self.chosen, number * 2_000_000
        if marked:
            self.complete("user_annotation", f"ProfilerStep#{number + 4}", 1, first_ns, 1_990_000)
            self.complete("gpu_user_annotation", f"ProfilerStep#{number + 4}", 7, first_ns + chosen.randrange(1_000_000), 800_000, process=0)
        ready = {stream: first_ns + chosen.randrange(30_000) for stream in (0, 7, 20, 24)}
        self.host_ns = max(self.host_ns, first_ns)
        for _ in range(60):
            self.host_ns += chosen.choice([1_000, 3_000, 9_000])
            self.work(chosen.choice([0, 7, 7, 7, 20, 24]), ready)
            if chosen.random() < 0.1:
                self.wait()
            if chosen.random() < 0.05:
                self.graph(ready)

    def work(self, stream, ready):
        chosen = self.chosen
        length_ns = chosen.choice([0, 120, 400, 999, 1_000, 1_500, 7_777, 40_000, chosen.randrange(1, 100_000)]) // self.unit_ns * self.unit_ns
        start_ns = max(ready[stream] + chosen.choice([0, 1, 500, 999, 1_000, 2_345, 35_000]), self.host_ns + chosen.choice([-500, 500, 4_000]))
        if chosen.random() < 0.1:
            start_ns = max(start_ns - chosen.choice([300, 2_000]), 0)  # at once with what was before on its stream
        ready[stream] = max(ready[stream], start_ns + length_ns)
        kind = chosen.random()
        named = {"device": 0, "context": 1, "correlation": 1_000_000 + len(self.keys)}  # of a call that is not there
        if kind < 0.8:
            launch = chosen.choice(LAUNCHES) if stream != 24 else chosen.choice(["cudaMemcpyAsync", "cudaMemsetAsync"])
            named = self.call(launch, self.host_ns, chosen.choice([800, 2_500]))
        named["stream"] = stream
        if kind > 0.95:
            del named["correlation"]
        if stream == 24:
            name = chosen.choice(COPIES)
            named["bytes"] = chosen.choice([1, 4_096, 123_456, 1 << 24])
            if length_ns > 0:  # as Kineto writes it
                named["memory bandwidth (GB/s)"] = named["bytes"] / length_ns
            self.complete("gpu_memset" if name.startswith("Memset") else "gpu_memcpy", name, stream, start_ns, length_ns, process=0, **named)
            return
        self.complete("kernel", chosen.choice(COLLECTIVES if stream == 20 else KERNELS), stream, start_ns, length_ns, process=0, **named)
        if chosen.random() < 0.1:  # an operator that PyTorch's compiler made
            self.complete("cpu_op", f"triton_poi_fused_add_{stream}", 1, self.host_ns - 200, 5_000, stream=stream, kernel_backend="triton")

    def wait(self):
        stream = self.chosen.choice([7, 7, 20, 33, MOST_STREAM])
        named = self.call("cudaStreamWaitEvent" if stream < MOST_STREAM else "cudaDeviceSynchronize", self.host_ns + 100)
        name = "Stream Wait Event" if stream < MOST_STREAM else "Context Sync"
        self.complete("cuda_sync", name, stream if stream < MOST_STREAM else -1, self.host_ns + 150, 500, process=0, stream=stream, **named)

    def graph(self, ready):
        self.host_ns += 2_000
        named = self.call("cudaGraphLaunch", self.host_ns, 1_500)
        for _ in range(3):
            start_ns, length_ns = ready[7] + self.chosen.choice([400, 1_500]), self.chosen.randrange(1, 9_000)
            ready[7] = start_ns + length_ns
            self.complete("kernel", self.chosen.choice(KERNELS), 7, start_ns, length_ns, process=0, stream=7, **{"graph id": 3}, **named)


def mixed(seed, ranks=1, steps=1, unit_ns=1):
    return [Mixed(seed, rank, ranks, steps, unit_ns).trace for rank in range(ranks)]


def of_several_bases(traces):
    """Each file says otherwise what has to be added to its times."""
    for rank, trace in enumerate(from_a_base(traces)):
        trace.values["baseTimeNanoseconds"] += 1_000_000_007 * rank
        trace.events = [re.sub(r'"ts": (\d+)\.(\d+)', lambda found, rank=rank: moved(found, -1_000_000_007 * rank + 4_000_000_000), event)
                        for event in trace.events]
        trace.values["baseTimeNanoseconds"] -= 4_000_000_000
    return traces


def moved(found, by_ns):
    time_ns = int(found[1]) * 1000 + int(found[2]) + by_ns
    return f'"ts": {time_ns // 1000}.{time_ns % 1000:03}'


def kernel_first():
    """The file's first event is a kernel."""
    trace = Trace(rank=0, world_size=1)
    trace.complete("kernel", COMPUTE, 7, 5_000, 9_000, process=0, stream=7, correlation=1)
    trace.complete("cuda_runtime", "cudaLaunchKernel", 1, 1_000, 3_000, correlation=1)
    trace.work(COMPUTE, 7, 4, 12, 15)
    trace.complete("kernel", COMPUTE, 7, 16_000, 18_000, process=0, stream=7, correlation=7_777)
    return [trace]


def negative_durations():
    trace = random_trace(7)[0]
    trace.complete("kernel", COMPUTE, 7, 9_000_000, 8_995_000, process=0, stream=7, correlation=1_000_001)
    trace.complete("kernel", COMMUNICATION, 20, 9_100_000, 9_099_000, process=0, stream=20, correlation=1_000_002)
    return [trace]


def without_gpu():
    """As PyTorch's profiler writes a step on the CPU, with collectives by Gloo."""
    trace = Trace(rank=0)
    trace.host("ProfilerStep#3", 0, 1000)
    trace.host("aten::mm", 10, 400, category="cpu_op")
    trace.host("gloo:all_reduce", 300, 600, thread=2)
    return [trace]


CASES = {
    "fsdp2": fsdp2,
    "fractions": lambda: from_a_base(random_trace(1)),
    "many_short": lambda: from_a_base(random_trace(2, unit_ns=100)),
    "fractions_of_a_time_of_day": lambda: random_trace(6),
    "whole_microseconds": lambda: whole(random_trace(3, unit_ns=1_000)),
    "steps": lambda: from_a_base(random_trace(4, steps=4)),
    "without_launches": lambda: from_a_base(random_trace(5, launches=False)),
    "mixed": lambda: from_a_base(mixed(11)),
    "mixed_without_steps": lambda: from_a_base(mixed(12, steps=0)),
    "mixed_steps": lambda: from_a_base(mixed(13, steps=3)),
    "mixed_ranks": lambda: of_several_bases(mixed(14, ranks=2, steps=2)),
    "mixed_of_a_time_of_day": lambda: mixed(15, ranks=2),
    "mixed_whole_microseconds": lambda: whole(mixed(16, steps=2, unit_ns=1_000)),
    "kernel_first": kernel_first,
    "negative_durations": lambda: from_a_base(negative_durations()),
    "without_gpu": without_gpu,
}


def write(name, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for rank, trace in enumerate(CASES[name]()):
        trace.write(folder / f"rank-{rank}.json")
    return folder
