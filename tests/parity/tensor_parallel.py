"""PyTorch's tensor parallelism over the byte decoder: alone (`tensor`), and under FSDP2 (`fsdp2_tensor`)."""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from model import Attention, ByteGpt
from strategies import CLIP, Trainer, adam_w, wrap_fsdp2

STRATEGIES = ("tensor", "fsdp2_tensor")
TENSOR_RANKS = 2


class SplitAttention(nn.Module):
    """An Attention whose queries, keys and values are layers of their own, so that each can be split by heads."""

    def __init__(self, whole: Attention, tensor_ranks: int) -> None:
        super().__init__()
        assert whole.heads % tensor_ranks == 0
        self.whole_heads = whole.heads
        self.heads = whole.heads // tensor_ranks
        self.norm, self.projection = whole.norm, whole.projection
        dim = whole.qkv.weight.shape[1]
        for name, rows in zip(("queries", "keys", "values"), whole.qkv.weight.detach().chunk(3)):
            layer = nn.Linear(dim, dim, bias=False)
            layer.weight = nn.Parameter(rows.clone())
            self.add_module(name, layer)
        self.cosine, self.sine = whole.cosine, whole.sine

    rotate = Attention.rotate

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, dim = x.shape
        normed = self.norm(x)

        def by_head(layer: nn.Module) -> Tensor:
            return layer(normed).view(batch, seq, self.heads, dim // self.whole_heads).transpose(1, 2)

        attended = nn.functional.scaled_dot_product_attention(self.rotate(by_head(self.queries)), self.rotate(by_head(self.keys)),
                                                              by_head(self.values), is_causal=True)
        return x + self.projection(attended.transpose(1, 2).reshape(batch, seq, dim * self.heads // self.whole_heads))


def split(model: ByteGpt, strategy: str) -> nn.Module:
    shards = dist.get_world_size() // TENSOR_RANKS
    mesh = init_device_mesh("cpu", (shards, TENSOR_RANKS), mesh_dim_names=("shard", "tensor"))
    plan = {f"attention.{name}": ColwiseParallel() for name in ("queries", "keys", "values")} | {
        "attention.projection": RowwiseParallel(), "mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel()}
    for block in model.blocks():
        block.attention = SplitAttention(block.attention, TENSOR_RANKS)
        parallelize_module(block, mesh["tensor"], plan)
    return wrap_fsdp2(model, mesh=mesh["shard"]) if strategy == "fsdp2_tensor" else model


class TensorTrainer(Trainer):
    """Tensor ranks work on the same samples. Fused AdamW takes no two meshes in one call: each parameter is a group of its own."""

    def __init__(self, model: ByteGpt, strategy: str, learning_rate: float) -> None:
        self.model = split(model, strategy)
        self.optimizer = adam_w([{"params": [parameter]} for parameter in self.model.parameters()], learning_rate)
        self.scaler = ShardedGradScaler("cpu", enabled=False)
        self.synchronise_each = True
        self.ranks_with_loss = dist.get_world_size()

    def clip(self) -> Tensor:
        """Over parameters of several meshes, which clip_grad_norm_ refuses; whole, as the model is small."""
        gradients = [parameter.grad for parameter in self.model.parameters()]
        whole = [gradient.full_tensor() if isinstance(gradient, DTensor) else gradient for gradient in gradients]
        norm = nn.utils.get_total_norm(whole)
        for gradient in gradients:
            gradient.mul_(torch.clamp(CLIP / (norm + 1e-6), max=1.0))
        return norm
