"""What losses and gradient norms are compared on: models and ranks whose sizes do not divide, and how the trainer runs them."""

import json
import math
import pathlib
import subprocess
from dataclasses import dataclass

FOLDER = pathlib.Path(__file__).resolve().parent / "numbers"
STEPS = 10
TOLERANCE = 1e-5  # relative
NARROW_TOLERANCE = 2e-2  # of bf16 and fp16
LEARNING_RATE = 1e-3
WARM_UP_STEPS = 4
TEXT = "".join(f"line {index * index % 997} of the text to learn, {index} times over\n" for index in range(400))

# Of LoRA: nn.Module with requires_grad=False for all but the adapters.
LORA = "lora_"
LORA_RANK = 3
LORA_ALPHA = 6
ADAPTERS = (f"lora.rank={LORA_RANK}", f"lora.alpha={LORA_ALPHA}")

# A step that is large enough to be seen: momentum of mean gradients, without Adam's normalisation.
SGD_LEARNING_RATE = 0.1
SGD = ("optimizer.kind=sgd", "optimizer.momentum=0.9", f"train.lr={SGD_LEARNING_RATE}")
# Of ShardedGradScaler: the first step overflows and is skipped, from where the scale falls at once to one that fits; it grows twice.
SCALE = {"init_scale": 2.0**30, "growth_factor": 2.0, "backoff_factor": 2.0**-18, "growth_interval": 4}
SCALER = (f"scaler.init={SCALE['init_scale']:.0f}", "scaler.growth=2", f"scaler.backoff={SCALE['backoff_factor']!r}",
          f"scaler.interval={SCALE['growth_interval']}")

# PyTorch's name: the settings with which the trainer does the same.
STRATEGIES = {
    "fsdp2": ("preset=fsdp2",),
    "fsdp1": ("preset=fsdp1",),
    "ddp": ("strategy=no_shard",),
    "ddp_no_sync": ("strategy=ddp",),
    "zero_redundancy_optimizer": ("strategy=zero1",),
    "hybrid_shard": ("preset=fsdp1", "strategy=hybrid", "mesh.shard=2", "mesh.replicate=2"),
    "hsdp": ("preset=fsdp2", "strategy=hybrid", "mesh.shard=2", "mesh.replicate=2"),
    "gpipe": ("strategy=pipeline", "pipeline.schedule=gpipe"),
    "1f1b": ("strategy=pipeline",),
    "fsdp2_reshard": ("preset=fsdp2", "reshard_after_forward=2"),
    "tensor": ("strategy=tensor",),
    "fsdp2_tensor": ("preset=fsdp2", "mesh.tensor=2"),
    "lora_fsdp2": ("preset=fsdp2", *ADAPTERS),
    "lora_fsdp1": ("preset=fsdp1", *ADAPTERS),
    "lora_ddp": ("strategy=no_shard", *ADAPTERS),
    "interleaved": ("strategy=pipeline", "pipeline.schedule=interleaved", "pipeline.chunks=2"),
    "fsdp2_checkpoint_wrapper": ("preset=fsdp2", "checkpointing=full"),
    "fsdp2_checkpoint": ("preset=fsdp2", "checkpointing=every:2"),
    "fsdp1_checkpoint_wrapper": ("preset=fsdp1", "checkpointing=full"),
    "fsdp2_offload": ("preset=fsdp2", "offload=all"),
    "fsdp2_adam": ("preset=fsdp2", "optimizer.kind=adam"),
    "fsdp1_adam": ("preset=fsdp1", "optimizer.kind=adam"),
    "fsdp2_sgd": ("preset=fsdp2", *SGD),
    "fsdp1_sgd": ("preset=fsdp1", *SGD),
    "fsdp2_fp16": ("preset=fsdp2", "precision.param=fp16", "precision.reduce=fp32", *SCALER),
    "fsdp1_fp16": ("preset=fsdp1", "precision.param=fp16", "precision.reduce=fp16", *SCALER),
    "fsdp2_bf16": ("preset=fsdp2", "precision.param=bf16", "precision.reduce=fp32"),
    "fsdp2_bf16_checkpoint_wrapper_offload": ("preset=fsdp2", "precision.param=bf16", "precision.reduce=fp32", "checkpointing=full",
                                              "offload=all"),
}
DATA_PARALLEL = ("fsdp2", "fsdp1", "ddp", "ddp_no_sync", "zero_redundancy_optimizer")
OF_FOUR = ("hybrid_shard", "hsdp", "fsdp2_reshard")
OF_LORA = ("lora_fsdp2", "lora_fsdp1", "lora_ddp")
PIPELINES = ("gpipe", "1f1b", "interleaved")
OPTIMIZERS = ("fsdp2_adam", "fsdp1_adam", "fsdp2_sgd", "fsdp1_sgd", "fsdp2_fp16", "fsdp1_fp16")
OPTIONS = ("fsdp2_checkpoint_wrapper", "fsdp2_checkpoint", "fsdp1_checkpoint_wrapper", "fsdp2_offload", "fsdp2_bf16",
           "fsdp2_bf16_checkpoint_wrapper_offload")

Numbers = dict[str, list[float]]  # "loss" and "grad_norm", one value a step


@dataclass(frozen=True)
class Case:
    strategies: tuple[str, ...]
    ranks: int
    layers: int
    dim: int
    heads: int
    seq: int
    batch: int
    micro_batches: int
    group: str = "ranks"  # of cases that share a name but for the number of ranks

    @property
    def path(self) -> pathlib.Path:
        """Where PyTorch's figures are recorded."""
        return FOLDER / f"{self.group}{self.ranks}.json"

    def settings(self) -> list[str]:
        return [f"model.layers={self.layers}", f"model.dim={self.dim}", f"model.heads={self.heads}", f"model.seq={self.seq}",
                f"train.batch={self.batch}", f"train.micro_batches={self.micro_batches}", f"train.steps={STEPS}",
                f"train.lr={LEARNING_RATE}", f"train.warmup_steps={WARM_UP_STEPS}", "train.clip=1", "transport=shared_memory"]


# 256 rows of the embedding do not divide by 3; 66, 50 and 54 rows and their multiples neither by 4 nor all by 3.
CASES = (
    Case(DATA_PARALLEL, ranks=2, layers=2, dim=66, heads=3, seq=24, batch=2, micro_batches=1),
    Case(DATA_PARALLEL, ranks=3, layers=3, dim=50, heads=5, seq=16, batch=2, micro_batches=2),
    Case(DATA_PARALLEL + OF_FOUR, ranks=4, layers=2, dim=54, heads=1, seq=20, batch=1, micro_batches=1),
    Case(PIPELINES, ranks=2, layers=4, dim=66, heads=3, seq=24, batch=2, micro_batches=4, group="pipeline"),
    Case(PIPELINES, ranks=3, layers=6, dim=50, heads=5, seq=16, batch=1, micro_batches=6, group="pipeline"),
    Case(OPTIONS, ranks=2, layers=4, dim=66, heads=3, seq=24, batch=2, micro_batches=1, group="options"),
    Case(OPTIONS, ranks=3, layers=3, dim=50, heads=5, seq=16, batch=2, micro_batches=2, group="options"),
    Case(OPTIMIZERS, ranks=2, layers=2, dim=66, heads=3, seq=24, batch=2, micro_batches=2, group="optimizers"),
    Case(OPTIMIZERS, ranks=3, layers=3, dim=50, heads=5, seq=16, batch=2, micro_batches=1, group="optimizers"),
    Case(OF_LORA, ranks=2, layers=2, dim=66, heads=3, seq=24, batch=2, micro_batches=2, group="lora"),
    Case(("tensor",), ranks=2, layers=2, dim=60, heads=6, seq=24, batch=2, micro_batches=1, group="tensor"),
    Case(("fsdp2_tensor",), ranks=4, layers=3, dim=52, heads=2, seq=16, batch=1, micro_batches=2, group="tensor"),
)


def train(trainer: pathlib.Path, case: Case, strategy: str, folder: pathlib.Path) -> Numbers:
    """Runs the trainer; leaves `dump.safetensors` (initial weights, batches) in `folder`."""
    data = folder / "data.txt"
    data.write_text(TEXT)
    losses = folder / "losses"
    command = [trainer, "--ranks", case.ranks, "--out", folder / "run", "--losses", losses, "--dump", folder / "dump.safetensors",
               "--set", f"data.path={data}", *case.settings(), *STRATEGIES[strategy]]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    rows = [line.split() for line in losses.read_text().splitlines()]
    return {"loss": [float(row[1]) for row in rows], "grad_norm": [float(row[2]) for row in rows]}


def tolerance(strategy: str) -> float:
    return NARROW_TOLERANCE if "bf16" in strategy or "fp16" in strategy else TOLERANCE


def learning_rate(strategy: str) -> float:
    return SGD_LEARNING_RATE if "_sgd" in strategy else LEARNING_RATE


def recorded(case: Case) -> dict[str, Numbers]:
    """PyTorch's figures by strategy; an error if they belong to another case than this."""
    content = json.loads(case.path.read_text())
    if content["settings"] != case.settings():
        raise RuntimeError(f"{case.path} was recorded with other settings: run scripts/compare_pytorch --record")
    return content["numbers"]


def largest_deviation(ours: Numbers, theirs: Numbers) -> float:
    """Largest relative difference of any step's loss or gradient norm. A skipped step's norm is no number, on both sides or on neither."""
    largest = 0.0
    for kind in ("loss", "grad_norm"):
        if len(ours[kind]) != STEPS or len(theirs[kind]) != STEPS:
            return float("inf")
        for a, b in zip(ours[kind], theirs[kind]):
            if math.isfinite(a) != math.isfinite(b):
                return float("inf")
            if math.isfinite(b):
                largest = max(largest, abs(a - b) / abs(b))
    return largest
