"""In which order PyTorch and our Schedules issue collectives and compute: the cases, and an order read from a Schedule's text.

An order is a list of tokens, those of one training step on one rank, in the order in which the host issues them:
  gather U      all-gather of unit U for its own use          limit         the host waits in the rate limiter (next: a gather)
  prefetch U    all-gather of unit U ahead of its use         forward S     forward of segment S (embedding, block0, ..., head)
  copy_out U    FSDP2: all-gather output to parameters        backward S    its backward
  reshard U     FSDP2: parameters freed after backward        reduce U      reduce-scatter of U's gradients
  all_reduce U  of their shards between replicas
A prefetch is an all-gather whose unit is waited for only after other compute or another unit's all-gather.
"""

import json
import pathlib
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field

FOLDER = pathlib.Path(__file__).resolve().parent / "order"
RANKS = 2  # that share parameters
BLOCKS = 3


Difference = Callable[[list[str]], list[str]]
STEPS = 3  # PyTorch's last one is recorded: by then it knows the order of the units


@dataclass(frozen=True)
class Case:
    name: str
    preset: str
    pytorch: dict[str, object] = field(default_factory=dict)  # options of order.py
    settings: tuple[str, ...] = ()  # of `shardscope plan`, besides preset and limiter
    root: bool = True  # embedding and head in the root unit
    micro_batches: int = 1
    replicas: int = 1
    shards: int = RANKS
    differences: tuple[Difference, ...] = ()  # from our order to PyTorch's, as docs/schedule.md explains

    @property
    def path(self) -> pathlib.Path:
        return FOLDER / f"{self.name}.json"

    @property
    def ranks(self) -> int:
        return self.shards * self.replicas

    def plan_arguments(self) -> list[str]:
        return ["plan", "--preset", self.preset, "--units", str(BLOCKS), "--ranks", str(self.ranks), "--micro-batches",
                str(self.micro_batches), "--set", f"unit.root={str(self.root).lower()}", *self.settings]

    def recorded(self) -> list[str]:
        return json.loads(self.path.read_text())["order"]

    def expected(self, ours: list[str]) -> list[str]:
        """PyTorch's order, from ours and the explained differences."""
        for difference in self.differences:
            ours = difference(ours)
        return ours


def late_reduces(order: list[str]) -> list[str]:
    """A block's reduce-scatter comes after the next segment's backward has begun (FSDP1 with forward prefetch)."""
    result: list[str] = []
    waiting: str | None = None
    for token in order:
        if token.startswith("reduce block"):
            waiting = token
            continue
        result.append(token)
        if waiting and token.startswith("backward "):
            result.append(waiting)
            waiting = None
    return result


def limiter(order: list[str], steps: int, root_asks: bool) -> list[str]:
    """The last of `steps` equal steps under FSDP1's limiter, whose queue of freed units outlives a step.

    Who is about to gather takes the oldest entry if there are two, and waits for it. `root_asks`: so does the root before its
    backward, which has its parameters already.
    """
    queue = 0
    result: list[str] = []
    for _ in range(steps):
        result = []
        for index, token in enumerate(order):
            verb, name = token.split()
            asks = verb in ("gather", "prefetch")
            before_backward = root_asks and order[index - 1] == "forward head"
            for _ in range(int(asks) + int(before_backward)):
                if queue >= 2:
                    queue -= 1
                    result.append("limit")
            result.append(token)
            queue += int(verb == "reduce" or (verb == "forward" and name.startswith("block")))
    return result


def without_limits(order: list[str]) -> list[str]:
    return [token for token in order if token != "limit"]


def limiter_across_steps(order: list[str]) -> list[str]:
    """PyTorch's waits in the steps after the first."""
    return limiter(without_limits(order), STEPS, root_asks=True)


def empty_reshards(order: list[str]) -> list[str]:
    """FSDP2 opens the range of a reshard also where set_reshard_after_backward(False) has left nothing to do."""
    result: list[str] = []
    for token in order:
        verb, name = token.split()
        if verb == "reduce" and result[-1] != f"reshard {name}":
            result.append(f"reshard {name}")
        result.append(token)
    return result


HYBRID = ("strategy=hybrid", f"mesh.shard={RANKS}", "mesh.replicate=2")


def fsdp1(name: str, *settings: str, root: bool = True, micro_batches: int = 1, replicas: int = 1, differences: tuple[Difference, ...] = (),
          **pytorch: object) -> Case:
    if not pytorch.get("limit"):
        settings = ("prefetch.limit=0", *settings)
    return Case(f"fsdp1_{name}", "fsdp1", pytorch, settings, root, micro_batches, replicas, differences=differences)


def fsdp2(name: str, *settings: str, root: bool = True, micro_batches: int = 1, replicas: int = 1, shards: int = RANKS,
          differences: tuple[Difference, ...] = (), **pytorch: object) -> Case:
    return Case(f"fsdp2_{name}", "fsdp2", pytorch, settings, root, micro_batches, replicas, shards, differences)


CASES = (
    fsdp1("pre", "prefetch.backward=pre", backward="pre"),
    fsdp1("post", "prefetch.backward=post", backward="post"),
    fsdp1("none", "prefetch.backward=none", backward="none"),
    fsdp1("units", "prefetch.backward=pre", root=False, backward="pre"),
    fsdp1("units_post", "prefetch.backward=post", root=False, backward="post"),
    fsdp1("forward_prefetch", "prefetch.forward=1", forward_prefetch=True, differences=(late_reduces,)),
    fsdp1("limit", "prefetch.limit=2", limit=True, differences=(limiter_across_steps,)),
    fsdp1("limit_forward_prefetch", "prefetch.limit=2", "prefetch.forward=1", limit=True, forward_prefetch=True,
          differences=(late_reduces, limiter_across_steps)),
    fsdp1("grad_op", "strategy=grad_op", grad_op=True),
    fsdp1("grad_op_units", "strategy=grad_op", root=False, grad_op=True),
    fsdp1("accumulation", micro_batches=2),
    fsdp1("no_sync", "accumulation=no_sync", micro_batches=2, no_sync=True),
    fsdp1("no_sync_grad_op", "strategy=grad_op", "accumulation=no_sync", micro_batches=2, no_sync=True, grad_op=True),
    fsdp1("hybrid", *HYBRID, replicas=2),
    fsdp1("hybrid_accumulation", *HYBRID, micro_batches=2, replicas=2),
    fsdp2("implicit"),
    fsdp2("units", root=False),
    fsdp2("forward_list_1", "prefetch.forward=1", forward_list=1),
    fsdp2("forward_list_2", "prefetch.forward=2", forward_list=2),
    fsdp2("backward_list_1", "prefetch.backward_depth=1", backward_list=1),
    fsdp2("backward_list_2", "prefetch.backward_depth=2", backward_list=2),
    fsdp2("keep", "reshard_after_forward=false", reshard=False),
    fsdp2("reshard_to_two", "reshard_after_forward=2", shards=4, reshard=2),
    fsdp2("accumulation", micro_batches=2),
    fsdp2("hybrid", *HYBRID, replicas=2),
    fsdp2("hybrid_accumulation", *HYBRID, micro_batches=2, replicas=2),
    fsdp2("no_sync", "accumulation=no_sync", micro_batches=2, no_sync=True),
    fsdp2("hybrid_no_all_reduce", *HYBRID, "accumulation=reduce_scatter_only", micro_batches=2, replicas=2, no_all_reduce=True),
    fsdp2("keep_after_backward", "reshard_after_backward=false", micro_batches=2, keep_after_backward=True,
          differences=(empty_reshards,)),
    fsdp2("is_last_backward", "is_last_backward=false", micro_batches=2, is_last_backward=True),
)


def order_of(text: str) -> list[str]:
    """The order of rank 0 in the text form of a Schedule."""
    units = re.findall(r'^unit \d+ "(\S+)"', text, re.M)
    segments = [name.split(".")[0] for name in re.findall(r'^segment \d+ "(\S+)"', text, re.M)]
    is_fsdp2 = '"all_gather_copy_in"' in text
    order: list[str] = []
    for line in re.findall(r"^  op \d+ (.*)$", text.split("\nprogram 1")[0], re.M):
        kind, fields = line.split()[0], dict(re.findall(r"(\w+)=(\S+)", line.split("#")[0]))
        unit = units[int(fields["unit"])] if "unit" in fields else None
        if kind in ("forward", "backward"):
            token = f"{kind} {segments[int(fields['segment'])]}"
            if order[-1] != token:  # a block is two segments
                order.append(token)
            continue
        if kind in ("all_gather", "cast", "copy_in") and "host:" in fields.get("wait", ""):
            order.append("limit")
        if kind == "all_gather":
            order.append(f"prefetch {unit}")
        elif kind == "reduce_scatter":
            order.append(f"reduce {unit}")
        elif kind == "all_reduce" and unit:
            order.append(f"all_reduce {unit}")
        elif is_fsdp2 and kind == "copy_out":
            own_use(order, unit)
            order.append(f"copy_out {unit}")
        elif is_fsdp2 and kind == "reshard" and fields["phase"] == "backward":
            order.append(f"reshard {unit}")
        elif not is_fsdp2 and kind == "release" and unit and fields["stream"] == "1":
            own_use(order, unit)  # compute's wait
    return order


def planned(app: pathlib.Path, case: Case) -> list[str]:
    """The order of our Schedule for a case."""
    return order_of(subprocess.run([str(app), *case.plan_arguments()], capture_output=True, text=True, check=True).stdout)


def own_use(order: list[str], unit: str) -> None:
    """The unit is waited for: if its all-gather was the last token, it was issued for this use."""
    if order[-1] == f"prefetch {unit}":
        order[-1] = f"gather {unit}"
