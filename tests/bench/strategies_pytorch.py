#!/usr/bin/env python3
"""Step time and memory of DDP, ZeRO-1, HSDP, TP, a pipeline, and FSDP with few tokens, beside PyTorch's, one thread a rank."""
import argparse
import contextlib
import pathlib
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from figures import Table  # noqa: E402  (needs the path above)
from pytorch import WARM_UP_STEPS, Burst, Guard, Shape, environment, measure_ours, measure_pytorch  # noqa: E402
from ranks import Ranks  # noqa: E402

MEMORY_BUDGET = 0.5
SHAPE = Shape(6, 512, 8, 4, 128, ())
FEW_TOKENS = Shape(4, 896, 14, 1, 24, ())  # moving parameters takes most of a step


@dataclass(frozen=True)
class Pair:
    name: str
    pytorch: str  # of tests/parity
    settings: tuple[str, ...]
    budget: float  # of the step
    ranks: int = 2
    micro_batches: int = 1
    shape: Shape = SHAPE


PAIRS = (
    Pair("`strategy=ddp` / DistributedDataParallel", "ddp_no_sync", ("strategy=ddp",), 0.95),
    Pair("`strategy=zero1` / ZeroRedundancyOptimizer", "zero_redundancy_optimizer", ("strategy=zero1",), 0.9),
    Pair("`preset=fsdp1 strategy=hybrid`, 2 x 2 / FSDP2's HSDP", "hsdp",
         ("preset=fsdp1", "strategy=hybrid", "mesh.shard=2", "mesh.replicate=2"), 0.9, ranks=4),
    Pair("`strategy=pipeline`, 2 stages, 4 micro-batches / Schedule1F1B", "1f1b", ("strategy=pipeline",), 0.9, micro_batches=4),
    Pair("`strategy=tensor` / ColwiseParallel, RowwiseParallel", "tensor", ("strategy=tensor",), 0.9),
    Pair("few tokens, `preset=fsdp2` / DistributedDataParallel", "ddp", ("preset=fsdp2",), 0.85, shape=FEW_TOKENS),
    Pair("few tokens, `preset=fsdp1` / DistributedDataParallel", "ddp", ("preset=fsdp1",), 0.85, shape=FEW_TOKENS),
    Pair("few tokens, `preset=double_buffer` / DistributedDataParallel", "ddp", ("preset=double_buffer",), 0.7, shape=FEW_TOKENS),
)


def milliseconds(bursts: list[Burst]) -> str:
    times = [time / 1e6 for burst in bursts for time in burst.steps_ns]
    return f"{statistics.median(times):.0f} ({min(times):.0f} to {max(times):.0f}) ms"


def measure(build: pathlib.Path, pair: Pair, rounds: int, steps: int, guard: Guard, table: Table) -> None:
    """Both once a round, one after the other; the ratio is the median of the rounds' ratios."""
    shape = pair.shape
    numbers = (shape.layers, shape.dim, shape.heads, shape.seq, shape.batch, pair.micro_batches)
    settings = ("transport=shared_memory", f"train.micro_batches={pair.micro_batches}", *pair.settings)
    ours, theirs = [], []
    with contextlib.ExitStack() as stack:
        ranks = stack.enter_context(Ranks("speed.py", pair.ranks, pair.pytorch, *map(str, numbers)))
        ranks.receive()
        of_ours: Callable[[], Burst] = lambda: measure_ours(build, shape, steps, *settings, ranks=pair.ranks)
        for _ in range(rounds):
            ours.append(guard.measure(pair.name, of_ours))
            theirs.append(guard.measure(pair.pytorch, lambda: measure_pytorch(ranks, steps)))
    ratio = statistics.median(statistics.median(a.steps_ns) / statistics.median(b.steps_ns) for a, b in zip(ours, theirs))
    table.add(f"{pair.name}: step", f"{ratio:.2f}; {milliseconds(ours)} / {milliseconds(theirs)}", f"<= {pair.budget:.2f}", ratio <= pair.budget)
    peaks = [max(burst.peak_bytes for burst in bursts) for bursts in (ours, theirs)]
    table.add(f"{pair.name}: resident memory", f"{peaks[0] / peaks[1]:.2f}; {peaks[0] / 1e6:.0f} / {peaks[1] / 1e6:.0f} MB", f"<= {MEMORY_BUDGET:.2f}",
              peaks[0] <= MEMORY_BUDGET * peaks[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true", help="one round of two steps")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help="measured steps of a competitor in a round")
    parser.add_argument("--foreign", type=float, default=0.03, help="share of the cores that other programs may use")
    parser.add_argument("--only", default="", help="part of the names of the pairs to measure")
    parser.add_argument("--patience", type=float, default=600, help="seconds for which a disturbed burst is repeated")
    options = parser.parse_args()
    rounds, steps = (1, 2) if options.quick else (options.rounds, options.steps)
    table, guard = Table(), Guard(options.foreign, options.patience)
    try:
        environment.python()
        for pair in (pair for pair in PAIRS if options.only in pair.name):
            measure(options.build, pair, rounds, steps, guard, table)
    except (environment.SetupError, RuntimeError, OSError) as error:
        print(f"bench strategies_pytorch: {error}", file=sys.stderr)
        return 1
    print(f"{SHAPE}; few tokens: {FEW_TOKENS}; fp32, fused AdamW, norm clipped, one thread a rank; {rounds} rounds, in each of which both run {WARM_UP_STEPS} steps of warm-up\n"
          f"and {steps} measured ones, one after the other. Step: median of the rounds' ratios; then medians (lowest to highest) of all steps.\n"
          f"Bursts in which other programs used more than {options.foreign:.0%} of the cores, which were repeated: {guard.discarded} of "
          f"{guard.bursts}.\n")
    table.print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
