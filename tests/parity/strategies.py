"""DDP, FSDP1 and FSDP2 over the byte decoder, with the units of the trainer: embedding, every block, head."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from model import ByteGpt

# As engine/model/training_settings.h.
BETAS = (0.9, 0.95)
EPSILON = 1e-8
WEIGHT_DECAY = 0.01
CLIP = 1.0


def wrap_fsdp1(model: ByteGpt, *, root: bool = False, backward: str = "pre", forward_prefetch: bool = False,
               limit: bool = False, grad_op: bool = False) -> FullyShardedDataParallel:
    """Units of their own for embedding and head, or (`root`) both in the root unit."""
    options = {
        "sharding_strategy": ShardingStrategy.SHARD_GRAD_OP if grad_op else ShardingStrategy.FULL_SHARD,
        "backward_prefetch": {"pre": BackwardPrefetch.BACKWARD_PRE, "post": BackwardPrefetch.BACKWARD_POST,
                              "none": None}[backward],
        "forward_prefetch": forward_prefetch,
        "limit_all_gathers": limit,
        "use_orig_params": True,
        "device_id": torch.device("cpu"),
    }
    if not root:
        model.embedding = FullyShardedDataParallel(model.embedding, **options)
        model.head = FullyShardedDataParallel(model.head, **options)
    for index, block in enumerate(model.blocks()):
        setattr(model, f"block{index}", FullyShardedDataParallel(block, **options))
    return FullyShardedDataParallel(model, **options)


def wrap_fsdp2(model: ByteGpt, *, root: bool = False, reshard: bool = True) -> ByteGpt:
    if not root:
        fully_shard(model.embedding, reshard_after_forward=reshard)
        fully_shard(model.head, reshard_after_forward=reshard)
    for block in model.blocks():
        fully_shard(block, reshard_after_forward=reshard)
    return fully_shard(model, reshard_after_forward=None if reshard else False)


def wrap(model: ByteGpt, strategy: str) -> nn.Module:
    if strategy == "ddp":
        return DistributedDataParallel(model)
    return wrap_fsdp1(model) if strategy == "fsdp1" else wrap_fsdp2(model)


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
    """Model, strategy and fused AdamW; the arithmetic of a step of the trainer."""

    def __init__(self, model: ByteGpt, strategy: str, learning_rate: float) -> None:
        self.model = wrap(model, strategy)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=learning_rate, betas=BETAS, eps=EPSILON,
                                           weight_decay=WEIGHT_DECAY, fused=True)

    def clip(self) -> Tensor:
        """The global gradient norm, before clipping."""
        if isinstance(self.model, FullyShardedDataParallel):
            return self.model.clip_grad_norm_(CLIP)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        return norm.full_tensor() if hasattr(norm, "full_tensor") else norm

    def step(self, micro_batches: list[Tensor], synchronise_each: bool = True) -> tuple[Tensor, Tensor]:
        """One step; returns this rank's mean loss, and the gradient norm. The loss is divided by the micro-batches."""
        total = torch.zeros(())
        for index, batch in enumerate(micro_batches):
            last = index + 1 == len(micro_batches)
            with gradient_sync(self.model, synchronise_each or last):
                loss = self.model(batch) / len(micro_batches)
                loss.backward()
            total += loss.detach()
        norm = self.clip()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total, norm
