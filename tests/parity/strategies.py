"""PyTorch's strategies over the byte decoder, with the units of the trainer: embedding, every block, head.

ddp, ddp_no_sync, zero_redundancy_optimizer, fsdp1, fsdp2, fsdp2_reshard (among two ranks after the forward), and over two replicas
hybrid_shard (FSDP1) and hsdp (FSDP2); those of pipelines.py and tensor_parallel.py. Words after the strategy are its options:
checkpoint_wrapper (of every block), checkpoint (of every second), offload, bf16 (reduced in fp32), fp16 with ShardedGradScaler (reduced in
fp32 by FSDP2, in fp16 by FSDP1), and of the optimizer adam or sgd.
"""

import contextlib
from collections.abc import Iterable, Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (BackwardPrefetch, CPUOffloadPolicy, FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy,
                                    OffloadPolicy, ShardingStrategy, fully_shard)
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from model import ByteGpt
from number_cases import SCALE

# As engine/model/training_settings.h.
BETAS = (0.9, 0.95)
EPSILON = 1e-8
WEIGHT_DECAY = 0.01
MOMENTUM = 0.9
CLIP = 1.0
REPLICAS = 2


def wrap_fsdp1(model: ByteGpt, *, root: bool = False, backward: str = "pre", forward_prefetch: bool = False, limit: bool = False,
               grad_op: bool = False, mesh: DeviceMesh | None = None, fp16: bool = False) -> FullyShardedDataParallel:
    """Units of their own for embedding and head, or (`root`) both in the root unit. `mesh`: replicas, shards."""
    sharding = ShardingStrategy.SHARD_GRAD_OP if grad_op else ShardingStrategy.FULL_SHARD
    options = {
        "sharding_strategy": ShardingStrategy.HYBRID_SHARD if mesh else sharding,
        "device_mesh": mesh,
        "backward_prefetch": {"pre": BackwardPrefetch.BACKWARD_PRE, "post": BackwardPrefetch.BACKWARD_POST,
                              "none": None}[backward],
        "forward_prefetch": forward_prefetch,
        "limit_all_gathers": limit,
        "use_orig_params": True,
        "mixed_precision": MixedPrecision(torch.float16, torch.float16) if fp16 else None,
        "device_id": torch.device("cpu"),
    }
    if not root:
        model.embedding = FullyShardedDataParallel(model.embedding, **options)
        model.head = FullyShardedDataParallel(model.head, **options)
    for index, block in enumerate(model.blocks()):
        setattr(model, f"block{index}", FullyShardedDataParallel(block, **options))
    return FullyShardedDataParallel(model, **options)


def wrap_fsdp2(model: ByteGpt, *, root: bool = False, reshard: bool | int = True, mesh: DeviceMesh | None = None, offload: bool = False,
               narrow: torch.dtype | None = None) -> ByteGpt:
    options = {
        "mesh": mesh,
        "offload_policy": CPUOffloadPolicy(pin_memory=False) if offload else OffloadPolicy(),
        "mp_policy": MixedPrecisionPolicy(narrow, torch.float32) if narrow else MixedPrecisionPolicy(),
    }
    if not root:
        fully_shard(model.embedding, reshard_after_forward=reshard, **options)
        fully_shard(model.head, reshard_after_forward=reshard, **options)
    for block in model.blocks():
        fully_shard(block, reshard_after_forward=reshard, **options)
    return fully_shard(model, reshard_after_forward=None if reshard else False, **options)


class Checkpointed(nn.Module):
    """What torch.utils.checkpoint recomputes: all of a block."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.block, x, use_reentrant=False)


def recompute_blocks(model: ByteGpt, strategy: str) -> None:
    """Before it is sharded, as torchtitan does it."""
    for index, block in enumerate(model.blocks()):
        if "checkpoint_wrapper" in strategy:
            setattr(model, f"block{index}", checkpoint_wrapper(block, checkpoint_impl=CheckpointImpl.NO_REENTRANT))
        elif "checkpoint" in strategy and index % 2 == 0:
            setattr(model, f"block{index}", Checkpointed(block))


def replicas_of_shards() -> DeviceMesh:
    return init_device_mesh("cpu", (REPLICAS, dist.get_world_size() // REPLICAS), mesh_dim_names=("replicate", "shard"))


def wrap(model: ByteGpt, strategy: str) -> nn.Module:
    if strategy in ("ddp", "ddp_no_sync", "zero_redundancy_optimizer"):
        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    mesh = replicas_of_shards() if strategy in ("hybrid_shard", "hsdp") else None
    recompute_blocks(model, strategy)
    if strategy.startswith("fsdp1") or strategy == "hybrid_shard":
        return wrap_fsdp1(model, mesh=mesh, fp16="fp16" in strategy)
    narrow = torch.bfloat16 if "bf16" in strategy else torch.float16 if "fp16" in strategy else None
    return wrap_fsdp2(model, mesh=mesh, reshard=2 if strategy == "fsdp2_reshard" else True, offload="offload" in strategy,
                      narrow=narrow)


def optimizer_of(parameters: Iterable[nn.Parameter], learning_rate: float, strategy: str) -> torch.optim.Optimizer:
    """Fused AdamW, where the strategy says nothing else."""
    if "_sgd" in strategy:
        return torch.optim.SGD(parameters, learning_rate, MOMENTUM, weight_decay=WEIGHT_DECAY)
    if "_adam" in strategy:
        return torch.optim.Adam(parameters, learning_rate, BETAS, EPSILON, WEIGHT_DECAY, fused=True)
    if "fp16" in strategy:  # fused, it wants a found-inf of another shape than the scaler makes
        return torch.optim.AdamW(parameters, learning_rate, BETAS, EPSILON, WEIGHT_DECAY)
    return adam_w(parameters, learning_rate, sliced=strategy == "zero_redundancy_optimizer")


def adam_w(parameters: Iterable[nn.Parameter], learning_rate: float, sliced: bool = False) -> torch.optim.Optimizer:
    """Fused; `sliced`: each rank has the state of some of the parameters, and sends them after it has updated them."""
    options = {"lr": learning_rate, "betas": BETAS, "eps": EPSILON, "weight_decay": WEIGHT_DECAY, "fused": True}
    if sliced:
        return ZeroRedundancyOptimizer(parameters, optimizer_class=torch.optim.AdamW, **options)
    return torch.optim.AdamW(parameters, **options)


@contextlib.contextmanager
def gradient_sync(model: nn.Module, synchronise: bool) -> Iterator[None]:
    """Accumulates locally inside if not `synchronise`: no_sync(), or its FSDP2 form."""
    if hasattr(model, "set_requires_gradient_sync"):
        model.set_requires_gradient_sync(synchronise)
        yield
    elif synchronise:
        yield
    else:
        with model.no_sync():
            yield


class Trainer:
    """Model, strategy and optimizer; the arithmetic of a step of the trainer."""

    def __init__(self, model: ByteGpt, strategy: str, learning_rate: float) -> None:
        self.model = wrap(model, strategy)
        self.optimizer = optimizer_of(self.model.parameters(), learning_rate, strategy)
        self.scaler = ShardedGradScaler("cpu", enabled="fp16" in strategy, **SCALE)
        self.synchronise_each = strategy not in ("ddp_no_sync", "zero_redundancy_optimizer")
        self.ranks_with_loss = dist.get_world_size()

    def clip(self) -> Tensor:
        """The global gradient norm, before clipping."""
        if isinstance(self.model, FullyShardedDataParallel):
            return self.model.clip_grad_norm_(CLIP)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        return norm.full_tensor() if hasattr(norm, "full_tensor") else norm

    def step(self, micro_batches: list[Tensor]) -> tuple[Tensor, Tensor]:
        """One step; returns this rank's mean loss, and the gradient norm. The loss is divided by the micro-batches."""
        total = torch.zeros(())
        for index, batch in enumerate(micro_batches):
            last = index + 1 == len(micro_batches)
            with gradient_sync(self.model, self.synchronise_each or last):
                loss = self.model(batch) / len(micro_batches)
                self.scaler.scale(loss).backward()
            total += loss.detach()
        self.scaler.unscale_(self.optimizer)
        norm = self.clip()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return total, norm
