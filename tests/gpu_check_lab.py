"""For tests of scripts/gpu-check: its modules, and a machine with a GPU that is made up."""

import json
import pathlib
import sys

from programs import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from gpu_check import checks_speed, checks_tracing, checks_transport, lab, machine, table  # noqa: E402

SCRIPT = ROOT / "scripts" / "gpu-check"
# What issue and documentation promise.
NAMES = ["parity_cpu", "schedules_bitwise", "join_rate", "clock_skew", "edges", "memory", "local_bandwidth", "emulated_bandwidth",
         "nccl_one_rank", "nccl_multi_gpu", "injection", "prefetch_overlap", "overhead_gpu_bound", "overhead_cpu_bound", "speed_1b", "sanitizer"]
GPU = machine.Gpu("NVIDIA H200", "580.1", 2)
LOSSES = [f"{step} {5 - 0.1 * step:.17g} {1 + 0.01 * step:.17g}" for step in range(10)]


class FakeLab:
    """Answers as a machine with a GPU on which all is well; `wrong` replaces some answers."""

    def __init__(self, **wrong):
        self.wrong = wrong
        self.gpu = self.answer("gpu", GPU)
        self.folder = pathlib.Path("/work")
        self.places = lab.Places("/bin", [])
        self.commands = []

    def answer(self, name, right):
        value = self.wrong.get(name, right)
        if isinstance(value, Exception):
            raise value
        return value

    def left_s(self):
        return self.answer("left_s", 100)

    def train_command(self, run, *settings, extra=()):
        return ["shardscope-train", run, *settings]

    def train(self, name, *settings, environment=None, limit_s=0, extra=()):
        self.commands.append((name, settings, environment))
        return self.answer("train", pathlib.Path(name))

    def losses(self, name, *settings, environment=None):
        self.train(name, *settings, environment=environment)
        return self.answer(name, LOSSES)

    def sql(self, run, query):
        if query is checks_transport.TRANSFERS:
            bandwidth = checks_transport.BANDWIDTHS.get(str(run).removeprefix("emulated-").replace("-", "/"), 1e12)
            seconds = (checks_transport.LATENCY_S + 10e6 / bandwidth) * self.answer("slowness", 1.01)
            return [{"wire_bytes": 10_000_000, "seconds": seconds}] * self.answer("transfers", 12)
        if query is checks_transport.KERNELS:
            shift = 0 if "on" in str(run) else 100
            return [{"rank": 0, "category": "compute", "start_ns": 0, "end_ns": 100},
                    {"rank": 0, "category": "communication", "start_ns": self.answer("shift", 50) + shift, "end_ns": 300}]
        right = {checks_tracing.JOIN_RATE: {"kernels": 10_000, "joined": 9_995},
                 checks_tracing.CLOCK_SKEW: {"kernels": 10_000, "before_launch_us": 3.0, "after_step_us": -2.0},
                 checks_tracing.GPU_CLOCK: {"gpu_clocks": 1, "uncertainty_us": 9.0, "low_us": -4.0, "high_us": 9.0},
                 checks_tracing.EDGES: {"checked": 400, "violated": 0},
                 checks_tracing.SEEN_EDGES: {"seen_by_cupti": 90, "missing": 0, "extra": 3},
                 checks_tracing.MEMORY: {"step_ends": 12, "unaccounted_bytes": 0},
                 checks_tracing.UNACCOUNTED: {"held_bytes": 64 << 20, "late_bytes": 0, "allocator_on": 1},
                 checks_tracing.IN_USE: {"device_used_readings": 6, "device_used_bytes": 2 << 30},
                 checks_tracing.SEGMENTS: {"bytes": 1 << 30},
                 checks_tracing.INJECTED: {"kernels": 500, "copies": 4, "nccl_operations": 20, "fsdp_ranges": 80, "cupti_on": 1}}[query]
        return [{**right, **{key: value for key, value in self.wrong.items() if key in right}}]

    def report(self, run):
        ratio = self.answer("overhead", 1.01)
        return {"steps": [{"step": step, "rank": rank, "step_ns": 1e8 * (10 if step < 3 else 1)} for step in range(12) for rank in range(2)],
                "overhead": ratio and {"ratio": ratio, "lowest": ratio - 0.02, "highest": ratio + 0.02, "unrecorded_ns": 1e8,
                                       "rounds": self.answer("rounds", checks_speed.ROUNDS)}}

    def pytorch(self, program, *arguments, prefix=(), environment=None, limit_s=0):
        if program == "fsdp2_small.py":
            return self.answer("recorded_output", "step 0\n") if prefix else "step 0\n"
        return "warning\n" + json.dumps({"steps_s": [9.0] * 3 + [self.answer("pytorch_step_s", 0.11)] * 9})

    def environment(self, more=None):
        return more

    def run_program(self, command, environment=None, limit_s=0):
        assert environment == lab.CUPTI_OFF
        return f"...\n========= ERROR SUMMARY: {self.answer('sanitizer', 0)} errors\n"

    def tool(self, name):
        return self.answer("tool", name)


def entry_of(name, fake):
    return table.judge(next(check for check in table.CHECKS if check.name == name), fake)
