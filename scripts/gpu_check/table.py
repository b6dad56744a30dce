"""The acceptance: every check, how it measures, and what its figures have to be."""

import dataclasses
import operator
import time

from . import checks_engine, checks_speed, checks_tracing, checks_transport
from .lab import Failure, Skip

COMPARE = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}


@dataclasses.dataclass(frozen=True)
class Limit:
    figure: str  # of what the check measures
    sign: str
    value: float

    def holds(self, measured):
        return self.figure in measured and COMPARE[self.sign](measured[self.figure], self.value)

    def __str__(self):
        return f"{self.figure} {self.sign} {self.value:g}"


@dataclasses.dataclass(frozen=True)
class Check:
    name: str
    what: str
    measure: object  # Lab -> figures by name
    limits: tuple


CHECKS = (
    Check("parity_cpu", "fp32 losses beside those of the CPU engine", checks_engine.parity_cpu,
          (Limit("largest_relative_difference", "<=", 1e-4), Limit("with_logits_in_blocks", "<=", 1e-4), Limit("of_adapters", "<=", 1e-4),
           Limit("of_offload", "<=", 1e-4), Limit("steps", ">=", 10))),
    Check("schedules_bitwise", "schedules that do the same arithmetic, bit for bit", checks_engine.schedules_bitwise,
          (Limit("different", "==", 0), Limit("schedules", ">=", 8))),
    Check("join_rate", "kernels of the steps that were joined to an op", checks_tracing.join_rate,
          (Limit("joined_share", ">=", 0.999), Limit("kernels", ">=", 100))),
    Check("clock_skew", "kernels before their launch, or after the end of their step", checks_tracing.clock_skew,
          (Limit("before_launch_us", "<=", 50), Limit("after_step_us", "<=", 50), Limit("kernels", ">=", 100),
           Limit("gpu_clocks", ">=", 1), Limit("low_us", "<=", 50), Limit("high_us", ">=", -50))),
    Check("edges", "dependencies of the Schedule in what the GPU did", checks_tracing.edges,
          (Limit("violated", "==", 0), Limit("checked", ">=", 10), Limit("missing", "==", 0), Limit("seen_by_cupti", ">=", 10))),
    Check("memory", "memory events beside LibTorch's allocator, at every step's end", checks_tracing.memory,
          (Limit("unaccounted_bytes", "==", 0), Limit("step_ends", ">=", 4), Limit("allocator_on", "==", 1), Limit("late_bytes", "==", 0),
           Limit("held_bytes", ">=", 0), Limit("held_bytes", "<=", 256 << 20), Limit("device_used_readings", ">=", 4))),
    Check("local_bandwidth", "virtual ranks of one GPU: what a collective moves through its memory", checks_transport.local_bandwidth,
          (Limit("collectives", ">=", 10), Limit("gb_s", ">=", 1))),
    Check("emulated_bandwidth", "time of paced collectives beside what was asked", checks_transport.emulated_bandwidth,
          (Limit("largest_deviation", "<=", 0.03), Limit("bandwidths", ">=", 3))),
    Check("nccl_one_rank", "NCCL with one rank", checks_transport.nccl_one_rank,
          (Limit("steps", ">=", 4), Limit("largest_relative_difference", "<=", 1e-6))),
    Check("nccl_multi_gpu", "NCCL with two GPUs beside virtual ranks on one", checks_transport.nccl_multi_gpu,
          (Limit("gpus", ">=", 2), Limit("steps", ">=", 4), Limit("largest_relative_difference", "<=", 1e-5),
           Limit("joined_share", ">=", 0.999))),
    Check("injection", "an unchanged PyTorch FSDP2 program", checks_tracing.injection,
          (Limit("kernels", ">=", 10), Limit("fsdp_ranges", ">=", 10), Limit("same_output", "==", 1),
           Limit("cupti_on", "==", 1))),
    Check("prefetch_overlap", "communication kernels that ran beside compute kernels, prefetch on and off",
          checks_transport.prefetch_overlap, (Limit("gained_pairs", ">=", 1),)),
    Check("overhead_gpu_bound", "step time recorded and not recorded, the GPU busy", checks_speed.overhead_gpu_bound,
          (Limit("ratio", "<=", 1.03), Limit("rounds", ">=", 20))),
    Check("overhead_cpu_bound", "step time recorded and not recorded, the host busy", checks_speed.overhead_cpu_bound,
          (Limit("ratio", "<=", 1.3), Limit("rounds", ">=", 20))),
    Check("speed_1b", "tokens a second of a GPT of 1 B parameters in bf16 beside PyTorch FSDP2", checks_speed.speed_1b,
          (Limit("of_pytorch", ">=", 1.0),)),
    Check("sanitizer", "compute-sanitizer on a small training", checks_engine.sanitizer, (Limit("errors", "==", 0),)),
)


def judge(check, lab):
    """One entry of the JSON."""
    began = time.monotonic()
    entry = {"name": check.name, "what": check.what, "status": "pass", "reason": "", "measured": {},
             "limits": [str(limit) for limit in check.limits]}
    try:
        if lab.left_s() <= 1:
            raise Failure("no time was left for it")
        entry["measured"] = check.measure(lab)
        missed = [str(limit) for limit in check.limits if not limit.holds(entry["measured"])]
        if missed:
            entry.update(status="fail", reason="not met: " + ", ".join(missed))
    except Skip as skip:
        entry.update(status="skipped", reason=str(skip))
    except Failure as failure:
        entry.update(status="fail", reason=str(failure))
    except (KeyError, ValueError, TypeError, ZeroDivisionError, OSError, StopIteration) as error:
        entry.update(status="fail", reason=f"what the programs said could not be used: {type(error).__name__}: {error}")
    entry["seconds"] = round(time.monotonic() - began, 2)
    return entry
