"""One PyTorch rank that trains a toy model under FSDP and tells, from its profiler's ranges, in which order it issued what.

Prints one JSON line: for each case of order_cases.py that has so many ranks the tokens of the last step, in which what FSDP learns in the first one is
known.
"""

import json
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function

import strategies
from order_cases import BLOCKS, CASES, RANKS, STEPS, Case
from ranks import run

WIDTH = 4
VOCABULARY = 8
FSDP1_PREFETCHES = ("_pre_forward_prefetch", "_pre_backward_prefetch", "_post_backward_prefetch")


class BackwardMark(torch.autograd.Function):
    """Identity; leaves a range in the profile when backward reaches it."""

    @staticmethod
    def forward(context: Any, x: Tensor, name: str) -> Tensor:
        context.name = name
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        with record_function(f"mark backward {context.name}"):
            return gradient, None


class Marked(nn.Module):
    """A segment whose forward and backward leave ranges in the profile."""

    def __init__(self, name: str, body: nn.Module) -> None:
        super().__init__()
        self.name = name
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        with record_function(f"mark forward {self.name}"):
            return BackwardMark.apply(self.body(x), self.name)


class Toy(nn.Module):
    """Embedding, blocks and head: each has another number of parameters, by which a collective's unit is known, and none twice
    another's; rows that four ranks can share."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = BLOCKS
        self.embedding = Marked("embedding", nn.Embedding(VOCABULARY, WIDTH))
        for index in range(BLOCKS):
            hidden = 4 * (2 * index + 3)
            body = nn.Sequential(nn.Linear(WIDTH, hidden, bias=False), nn.Linear(hidden, WIDTH, bias=False))
            self.add_module(f"block{index}", Marked(f"block{index}", body))
        self.head = Marked("head", nn.Linear(WIDTH, VOCABULARY + 28, bias=False))

    def blocks(self) -> list[nn.Module]:
        return [self.get_submodule(f"block{index}") for index in range(self.layers)]

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for index in range(self.layers):
            x = self._modules[f"block{index}"](x)
        return self.head(x)


def unit_sizes(model: Toy, root: bool) -> dict[int, str]:
    """Unit by number of elements; sizes divide by the ranks, so there is no padding."""
    sizes = {sum(p.numel() for p in block.parameters()): f"block{index}" for index, block in enumerate(model.blocks())}
    ends = {name: sum(p.numel() for p in model.get_submodule(name).parameters()) for name in ("embedding", "head")}
    sizes |= {sum(ends.values()): "root"} if root else {size: name for name, size in ends.items()}
    assert len(sizes) == BLOCKS + (1 if root else 2), "two units of one size"
    return sizes


def set_lists(model: Toy, root: bool, forward: int, backward: int) -> None:
    """FSDP2's explicit prefetch: every unit names the next `forward` and the previous `backward` ones."""
    units = [model, *model.blocks()] if root else [model.embedding, *model.blocks(), model.head]
    for index, unit in enumerate(units):
        if forward:
            unit.set_modules_to_forward_prefetch(units[index + 1:index + 1 + forward])
    # The root unit comes last in forward order: its post-forward is the last one.
    order = [*model.blocks(), model] if root else units
    for index, unit in enumerate(order):
        if backward:
            unit.set_modules_to_backward_prefetch(order[max(0, index - backward):index][::-1])


def wrap(case: Case) -> tuple[nn.Module, dict[int, str]]:
    model = Toy()
    sizes = unit_sizes(model, case.root)
    options = {key: value for key, value in case.pytorch.items() if key not in ("no_sync", *FSDP2_SETTERS)}
    if case.replicas > 1:
        options["mesh"] = strategies.replicas_of_shards()
    if case.preset == "fsdp1":
        return strategies.wrap_fsdp1(model, root=case.root, **options), sizes
    lists = options.pop("forward_list", 0), options.pop("backward_list", 0)
    strategies.wrap_fsdp2(model, root=case.root, **options)
    set_lists(model, case.root, *lists)
    return model, sizes


def tokens_of(trace: profile, sizes: dict[int, str]) -> list[str]:
    """The order, as order_cases.py defines it, from the ranges of the thread that issues."""
    events = sorted(trace.events(), key=lambda event: (event.time_range.start, -event.time_range.end))
    # FSDP1 gathers into a list of tensors, whose shapes the profiler leaves out: Gloo's own range, on another thread, has the
    # shard's. Each of these all-gathers ends before the next one is issued, so the two kinds of ranges pair up in order.
    listed = iter([RANKS * event.input_shapes[0][0] for event in events if event.name == "gloo:all_gather"])
    # An all-reduce's shape is left out as well. Gloo reduces and scatters by an all-reduce of the whole, which is no shard of a unit.
    shards = [RANKS * event.input_shapes[0][0] for event in events if event.name == "gloo:all_reduce"]
    reduced = iter([size for size in shards if size in sizes])
    tokens: list[str] = []
    prefetch_end = -1.0
    for event in events:
        name = event.name
        if "_prefetch for " in name or name.endswith(FSDP1_PREFETCHES):
            prefetch_end = event.time_range.end
        elif name.startswith("mark "):
            tokens.append(name.removeprefix("mark "))
        elif name.endswith(".rate_limiter"):
            tokens.append("limit")
        elif name in ("c10d::_allgather_base_", "c10d::allgather_"):
            unit = sizes[event.input_shapes[0][0] if "base" in name else next(listed)]
            tokens.append(f"{'prefetch' if event.time_range.start < prefetch_end else 'gather'} {unit}")
        elif name == "c10d::_reduce_scatter_base_":
            tokens.append(f"reduce {sizes[event.input_shapes[1][0]]}")
        elif name == "c10d::allreduce_":
            tokens.append(f"all_reduce {sizes[next(reduced)]}")
        elif name.startswith(("FSDP::all_gather_copy_out", "FSDP::post_backward_reshard")):
            unit = name.partition("(")[2].rstrip(")") or "root"
            tokens.append(f"{'copy_out' if 'copy_out' in name else 'reshard'} {unit}")
    return tokens


# What they set is true of the last micro-batch only.
FSDP2_SETTERS = {"no_all_reduce": "set_requires_all_reduce", "keep_after_backward": "set_reshard_after_backward",
                 "is_last_backward": "set_is_last_backward"}


def step(model: nn.Module, case: Case) -> None:
    for index in range(case.micro_batches):
        last = index + 1 == case.micro_batches
        with strategies.gradient_sync(model, last or not case.pytorch.get("no_sync")):
            for option, setter in FSDP2_SETTERS.items():  # after set_requires_gradient_sync(), which sets the all-reduce too
                if case.pytorch.get(option):
                    getattr(model, setter)(last)
            samples = torch.randint(0, VOCABULARY, (2, 3))
            F.cross_entropy(model(samples).flatten(0, 1), samples.flatten()).backward()


def record(case: Case) -> list[str]:
    model, sizes = wrap(case)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as trace:
            step(model, case)
        optimizer.step()
        optimizer.zero_grad()
    return tokens_of(trace, sizes)


if __name__ == "__main__":
    run(lambda rank, size: print(json.dumps({case.name: record(case) for case in CASES if case.ranks == size}), flush=True))
