"""What the engine computes on a GPU."""

from .lab import CUDA, CUPTI_OFF, SMALL, Failure

LOCAL = (*CUDA, "run.ranks=2", "transport=local")
UNEVEN = (*CUDA, "run.ranks=3", "transport=local")  # which do not divide the vocabulary
STEPS = 10

# Each group does the same arithmetic in the same order.
SCHEDULES = {
    "fsdp2": ("prefetch.backward=pre", "prefetch.backward=none", "prefetch.backward=post prefetch.forward=1",
              "prefetch.backward_depth=3 prefetch.forward=3", "reshard_after_forward=false", "host.run_ahead=0",
              "prefetch.limit=1 prefetch.forward=2"),
    "fsdp1": ("prefetch.backward=pre", "prefetch.backward=none", "prefetch.forward=1 prefetch.limit=2", "host.run_ahead=0"),
}


def numbers(lines):
    return [[float(word) for word in line.split()[1:]] for line in lines]


def largest_difference(ours, theirs, column=0):
    """Relative, over the losses (column 0) or gradient norms (1) of all steps."""
    if len(ours) != len(theirs) or not ours:
        raise Failure(f"{len(ours)} steps beside {len(theirs)}")
    return max(abs(mine[column] - other[column]) / max(abs(other[column]), 1e-12)
               for mine, other in zip(numbers(ours), numbers(theirs)))


def parity_cpu(lab):
    cpu = lab.losses("parity-cpu", "run.device=cpu", "run.ranks=3", "transport=shared_memory", *SMALL, f"train.steps={STEPS}")
    gpu = lab.losses("parity-gpu", *UNEVEN, *SMALL, f"train.steps={STEPS}")
    blocks = lab.losses("parity-blocks", *UNEVEN, *SMALL, f"train.steps={STEPS}", "train.logits_block=100")
    adapters = ("lora.rank=8", f"train.steps={STEPS}")
    cpu_adapters = lab.losses("parity-adapters-cpu", "run.device=cpu", "run.ranks=3", "transport=shared_memory", *SMALL, *adapters)
    gpu_adapters = lab.losses("parity-adapters-gpu", *UNEVEN, *SMALL, *adapters)
    offload = lab.losses("parity-offload", *UNEVEN, *SMALL, f"train.steps={STEPS}", "offload=all")
    return {"largest_relative_difference": largest_difference(gpu, cpu), "of_gradient_norm": largest_difference(gpu, cpu, 1),
            "with_logits_in_blocks": largest_difference(blocks, cpu), "of_adapters": largest_difference(gpu_adapters, cpu_adapters),
            "of_adapters_gradient_norm": largest_difference(gpu_adapters, cpu_adapters, 1), "of_offload": largest_difference(offload, cpu),
            "steps": len(gpu)}


def schedules_bitwise(lab):
    different, count = 0, 0
    for preset, policies in SCHEDULES.items():
        texts = [lab.losses(f"bits-{preset}-{index}", *UNEVEN, *SMALL, "train.steps=5", f"preset={preset}", *policy.split())
                 for index, policy in enumerate(policies)]
        count += len(texts)
        different += sum(text != texts[0] for text in texts)
    return {"schedules": count, "different": different}


def sanitizer(lab):
    """memcheck; CUPTI is left out, because both take the one place that there is."""
    tool = lab.tool("compute-sanitizer")
    command = lab.train_command(lab.folder / "sanitizer", *LOCAL, *SMALL, "model.layers=2", "train.steps=2")
    output = lab.run_program([tool, "--tool", "memcheck", "--report-api-errors", "no", "--error-exitcode", "86", *command], lab.environment(CUPTI_OFF), limit_s=200)
    summary = next(line for line in output.splitlines() if "ERROR SUMMARY" in line)
    return {"errors": int(summary.split("ERROR SUMMARY:")[1].split()[0])}
