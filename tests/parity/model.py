"""The trainer's model in PyTorch: a decoder over bytes, with the same parameters under the same names (engine/model)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY = 256
MLP_FACTOR = 4
NORM_EPSILON = 1e-5


def rotary_table(seq: int, head_dim: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine of position * 10000^(-2i/head_dim), each [seq, head_dim / 2]."""
    frequencies = torch.exp(torch.arange(head_dim // 2, dtype=torch.float64) * (-2 * math.log(10000.0) / head_dim))
    angles = torch.outer(torch.arange(seq, dtype=torch.float64), frequencies)
    return angles.cos().float(), angles.sin().float()


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int, seq: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.RMSNorm(dim, eps=NORM_EPSILON)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.projection = nn.Linear(dim, dim, bias=False)
        # Plain attributes: buffers would be broadcast and moved by the wrappers.
        self.cosine, self.sine = rotary_table(seq, dim // heads)

    def rotate(self, x: Tensor) -> Tensor:
        """x [batch, heads, seq, head_dim]: channel i turns with channel i + head_dim / 2."""
        first, second = x.chunk(2, -1)
        return torch.cat((first * self.cosine - second * self.sine, first * self.sine + second * self.cosine), -1).to(x.dtype)

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, dim = x.shape
        parts = self.qkv(self.norm(x)).view(batch, seq, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(self.rotate(parts[0]), self.rotate(parts[1]), parts[2], is_causal=True)
        return x + self.projection(attended.transpose(1, 2).reshape(batch, seq, dim))


class Mlp(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(dim, eps=NORM_EPSILON)
        self.up = nn.Linear(dim, MLP_FACTOR * dim, bias=False)
        self.down = nn.Linear(MLP_FACTOR * dim, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Block(nn.Module):
    def __init__(self, dim: int, heads: int, seq: int) -> None:
        super().__init__()
        self.attention = Attention(dim, heads, seq)
        self.mlp = Mlp(dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.attention(x))


class Head(nn.Module):
    """Norm and untied output layer."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(dim, eps=NORM_EPSILON)
        self.weight = nn.Parameter(torch.empty(VOCABULARY, dim))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.norm(x), self.weight)


class ByteGpt(nn.Module):
    def __init__(self, layers: int, dim: int, heads: int, seq: int) -> None:
        super().__init__()
        self.layers = layers
        self.embedding = nn.Embedding(VOCABULARY, dim)
        nn.init.normal_(self.embedding.weight, std=0.02)
        for index in range(layers):
            self.add_module(f"block{index}", Block(dim, heads, seq))
        self.head = Head(dim)

    def blocks(self) -> list[nn.Module]:
        return [self.get_submodule(f"block{index}") for index in range(self.layers)]

    def forward(self, samples: Tensor) -> Tensor:
        """Mean loss of samples [batch, seq + 1], token ids."""
        x = self.embedding(samples[:, :-1])
        for index in range(self.layers):
            # By name: wrappers replace the submodules.
            x = self._modules[f"block{index}"](x)
        logits = self.head(x)
        if logits.dtype == torch.float16:  # in which a scaled loss has no room
            logits = logits.float()
        return F.cross_entropy(logits.flatten(0, 1), samples[:, 1:].flatten())


class Adapted(nn.Module):
    """A linear layer with a low-rank adapter beside it, as peft's LoraLayer; the weight itself is not trained."""

    def __init__(self, linear: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.weight = linear.weight
        self.lora_A = nn.Linear(linear.in_features, rank, bias=False)
        self.lora_B = nn.Linear(rank, linear.out_features, bias=False)
        self.scale = alpha / rank

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight) + self.lora_B(self.lora_A(x)) * self.scale


def adapt(model: ByteGpt, rank: int, alpha: float) -> ByteGpt:
    """Adapters on every linear layer of the blocks, which alone are trained."""
    for block in model.blocks():
        for module, names in ((block.attention, ("qkv", "projection")), (block.mlp, ("up", "down"))):
            for name in names:
                setattr(module, name, Adapted(getattr(module, name), rank, alpha))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(".lora_" in name)
    return model
