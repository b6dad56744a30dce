"""Makes torch.profiler's Chrome traces whose figures are known beforehand."""

import gzip
import json

BASE_US = 1_700_000_000_000_000  # of the time of day, as PyTorch before 2.5 writes it


class Trace:
    """Times are whole nanoseconds since BASE_US, written as decimal microseconds, which no double holds."""

    def __init__(self, rank=None, process=100, world_size=2):
        self.events = []
        self.process = process
        self.values = {"schemaVersion": 1}
        if rank is not None:
            self.values["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world_size,
                                              "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl",
                                                             "pg_size": world_size, "ranks": list(range(world_size))}]}

    def add(self, text):
        self.events.append(text)

    def complete(self, category, name, thread, start_ns, end_ns, process=None, **arguments):
        duration = end_ns - start_ns
        sign = "-" if duration < 0 else ""
        self.add(f'{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {self.process if process is None else process}, "tid": {thread}, '
                 f'"ts": {BASE_US + start_ns // 1000}.{start_ns % 1000:03}, "dur": {sign}{abs(duration) // 1000}.{abs(duration) % 1000:03}, '
                 f'"args": {json.dumps(arguments)}}}')

    def host(self, name, start_us, end_us, thread=1, category="user_annotation"):
        self.complete(category, name, thread, start_us * 1000, end_us * 1000)

    def work(self, name, stream, launched_us, start_us, end_us, thread=1, category="kernel", **arguments):
        """A call of the host, and the kernel or copy that it asks for."""
        correlation = len(self.events) + 1
        self.complete("cuda_runtime", "cudaLaunchKernel", thread, launched_us * 1000, launched_us * 1000 + 2500, correlation=correlation)
        self.complete(category, name, stream, round(start_us * 1000), round(end_us * 1000), process=0, device=0, context=1, stream=stream,
                      correlation=correlation, **arguments)

    def collective(self, kind, stream, launched_us, start_us, end_us, elements, sequence, thread=1):
        whole, part = elements, elements // 2
        before, after = (whole, part) if kind == "_reduce_scatter_base" else (part, whole)
        kernel = {"_allgather_base": "AllGather", "_reduce_scatter_base": "ReduceScatter_Sum_f32", "allreduce": "AllReduce_Sum_f32"}[kind]
        self.work(f"ncclDevKernel_{kernel}_RING_LL(ncclDevKernelArgsStorage<4096ul>)", stream, launched_us, start_us, end_us, thread,
                  **{"Collective name": kind, "In msg nelems": before, "Out msg nelems": after, "Group size": 2, "dtype": "Float",
                     "Process Group Name": "0", "Process Group Description": "default_pg", "Seq": sequence})

    def memory(self, at_us, number_of_bytes, total, device=0):
        """Of PyTorch's allocator; `device` -1: of the host."""
        self.add(f'{{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": {self.process}, "tid": 1, "ts": {BASE_US + at_us}, '
                 f'"args": {{"Total Reserved": 0, "Total Allocated": {total}, "Bytes": {number_of_bytes}, "Device Id": {device}, '
                 f'"Device Type": {0 if device < 0 else 1}, "Addr": 7}}}}')

    def text(self):
        values = "".join(f'"{key}": {json.dumps(value)},\n' for key, value in self.values.items())
        events = ",\n".join(self.events)
        return f'{{{values}"traceEvents": [\n{events}\n]}}\n'

    def write(self, path):
        data = self.text().encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def fsdp2_step(rank, late_us=0, trace=None):
    """One step of FSDP2 with two units on two ranks, in ns of its step: 1,000,000 in all, 670,000 of compute, 400,000 of communication of which
    140,000 overlap, 20,000 of copies of which 10,000 are exposed, 60,000 idle; of a rank that comes late to the first gather, that shorter.
    `trace`: to add it to, with the methods of a Trace."""
    trace = trace or Trace(rank, process=100 + rank)
    trace.host("ProfilerStep#5", 0, 1000)
    for unit, asked_us in ((0, 10), (1, 80)):
        trace.host(f"FSDP::pre_forward (layers.{unit})", asked_us, asked_us + 30)
        trace.host(f"FSDP::all_gather (layers.{unit})", asked_us + 2, asked_us + 20)
        trace.host(f"FSDP::all_gather_copy_out (layers.{unit})", asked_us + 22, asked_us + 28)
        trace.host("aten::mm", asked_us + 35, asked_us + 50, category="cpu_op")
        trace.host(f"FSDP::post_forward (layers.{unit})", asked_us + 60, asked_us + 65)
    trace.collective("_allgather_base", 20, 15, 50 + late_us, 150, 1 << 20, 7)
    trace.work("split_with_sizes_copy_out", 7, 34, 150, 160)
    trace.work("ampere_sgemm_128x64_tn", 7, 50, 160, 400)
    trace.collective("_allgather_base", 20, 85, 150, 300, 1 << 20, 8)
    trace.work("split_with_sizes_copy_out", 7, 104, 400, 410)
    trace.work("ampere_sgemm_128x64_tn", 7, 120, 410, 600)
    backward = 2  # the thread of autograd
    trace.host("autograd::engine::evaluate_function: MmBackward0", 205, 262, backward, "cpu_op")
    trace.host("FSDP::pre_backward (layers.1)", 210, 215, backward)
    trace.work("ampere_sgemm_128x64_nt", 7, 220, 600, 800, backward)
    trace.host("FSDP::post_backward_reduce (layers.1)", 240, 260, backward)
    trace.collective("_reduce_scatter_base", 22, 250, 800, 950, 1 << 20, 9, backward)
    trace.host("Optimizer.step#AdamW.step", 300, 320)
    trace.work("multi_tensor_apply_kernel", 7, 310, 960, 1000)
    return trace
