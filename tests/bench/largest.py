#!/usr/bin/env python3
"""The largest byte GPT that trains in 256 MiB a rank (--mib), 4 ranks: ddp, zero1, zero2, full, and full with bf16, recomputation and offload, beside the formula."""
import argparse
import functools
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from figures import Table  # noqa: E402
from programs import is_steerable  # noqa: E402
from trainings import command_of  # noqa: E402

RANKS = 4
MIB = 2 ** 20
TOLERANCE = 0.05
VOCABULARY = 256
HEADS = 1
WIDTHS = 2 * HEADS  # a width is a multiple of this
TOKENS = 16  # a rank and step: few, so that parameters are what takes the memory
SETTINGS = {
    "ddp": ("strategy=ddp",),
    "zero1": ("strategy=zero1",),
    "zero2": ("strategy=zero2",),
    # Reductions cannot fall behind, so that the bound has no more gradients than one bucket.
    "zero2, serial": ("strategy=zero2", "zero.overlap_comm=false"),
    # Without the copies of fsdp2.
    "full": ("strategy=full", "preset=fsdp1"),
    "full, all on": ("strategy=full", "preset=fsdp1", "precision.param=bf16", "checkpointing=full", "offload=all"),
}
# Bytes of host memory a parameter of the last one, over all ranks: master, gradient and two moments.
HOST_BYTES = 16
MOST_HOST_BYTES = 16e9  # where it is not asked for by name


def parameters(layers, dim):
    return layers * (12 * dim * dim + 2 * dim) + 2 * VOCABULARY * dim + dim


def bucket_elements(limit_bytes):
    """Of zero2: the default at 2 GiB, and as much smaller as the model is."""
    return 5_000_000 * limit_bytes // (2048 * MIB)


def formula_all_on(layers, dim):
    """docs/memory.md and docs/schedule.md, "Offload": nothing is kept, but nothing bounds how many shards are on their way at once, from the host to a
    gather or, as reduced gradients, to the host: of each unit one in fp32. Of a block's activations forward keeps the output in bf16, and what is between
    (16 numbers a token and channel) is there for one. Two gathered units in bf16; of gradients two in bf16 and one in fp32, in which it is reduced."""
    block = 12 * dim * dim + 2 * dim
    return 4 / RANKS * parameters(layers, dim) + 2 * TOKENS * dim * (layers + 16) + (2 * 2 + 2 * 2 + 4) * block


def formula_bytes(strategy, layers, dim, bucket):
    """docs/strategies.md, "What a rank keeps", with activations (16 floats a token and channel of a block) and what is whole for a while."""
    if strategy == "full, all on":
        return formula_all_on(layers, dim)
    block = 4 * (12 * dim * dim + 2 * dim)
    state = {"ddp": 16, "zero1": 8 + 8 / RANKS, "zero2": 4 + 12 / RANKS, "zero2, serial": 4 + 12 / RANKS, "full": 16 / RANKS}[strategy]
    # zero2: the bucket that fills and the one that is reduced; full: one unit in use and one gathered ahead, and two gradients.
    passing = {"zero2": 2 * 4 * bucket, "zero2, serial": 4 * bucket, "full": 4 * block}.get(strategy, 0)
    return state * parameters(layers, dim) + 64 * TOKENS * dim * layers + passing


def widest(guess, fits):
    """The largest width that fits, where `guess` is near it: steps away from it that double, then halves."""
    fits = functools.cache(fits)
    low, high, step = guess, guess, WIDTHS
    while fits(high):
        low, high, step = high, high + step, 2 * step
    while not fits(low):
        low, high, step = max(WIDTHS, low - step), low, 2 * step
    while high - low > WIDTHS:
        middle = (low + high) // (2 * WIDTHS) * WIDTHS
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


class Trainer:
    def __init__(self, build, layers, limit_bytes):
        self.build, self.layers, self.limit_bytes = build, layers, limit_bytes

    def command(self, run, strategy, dim, steps):
        settings = [*SETTINGS[strategy], *([f"zero.reduce_bucket_size={bucket_elements(self.limit_bytes)}"] if "strategy=zero2" in SETTINGS[strategy] else [])]
        return command_of(self.build, run, RANKS, *settings, f"data.path={ROOT / 'engine'}", f"engine.memory_limit={self.limit_bytes}B",
                          f"model.layers={self.layers}", f"model.dim={dim}", f"model.heads={HEADS}", f"model.seq={TOKENS}", "train.batch=1",
                          f"train.steps={steps}", "record.steps=0:1")

    def accepts(self, strategy, dim):
        """Whether the trainer begins: it refuses a Schedule whose bound is above the limit before the first step."""
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder) / "run"
            with subprocess.Popen(self.command(run, strategy, dim, 1), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
                while process.poll() is None and not is_steerable(run):
                    time.sleep(0.02)
                accepted = process.poll() is None or process.returncode == 0
                process.kill()
                said = process.stderr.read()
        if not accepted and "engine.memory_limit" not in said:
            raise SystemExit(f"largest: {strategy} at dim {dim}: {said}")
        return accepted

    def train(self, strategy, dim):
        """Two steps for real: the Schedule's bound, and the highest peak of a rank."""
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder) / "run"
            subprocess.run(self.command(run, strategy, dim, 2), check=True, stdout=subprocess.DEVNULL)
            text = subprocess.run([self.build / "bin" / "shardscope", "report", run, "--json"], check=True, capture_output=True, text=True).stdout
        schedule, = json.loads(text)["schedules"]
        return schedule["executed_bound_bytes"], schedule["peak_bytes"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true", help="16 MiB a rank, 4 layers: to see that it runs")
    parser.add_argument("--mib", type=int, default=256, help="of each rank; 2048 needs 8 GiB and takes a while")
    parser.add_argument("--strategies", nargs="+", choices=list(SETTINGS), help="without it all that need no more than 16 GB on the host")
    options = parser.parse_args()
    layers, limit_bytes = (4, 16 * MIB) if options.quick else (48, options.mib * MIB)
    trainer = Trainer(options.build, layers, limit_bytes)
    print(f"{layers} layers, {TOKENS} tokens a rank, {RANKS} ranks, engine.memory_limit={limit_bytes}B; the width grows in steps of {WIDTHS}. The widest\n"
          "model whose bound the trainer accepts, which then trains two steps; the formula is that of docs/strategies.md with activations.\n")
    table, sizes = Table(), {}
    for strategy in options.strategies or SETTINGS:
        expected = widest(WIDTHS, lambda dim: formula_bytes(strategy, layers, dim, bucket_elements(limit_bytes)) <= limit_bytes)
        on_host = HOST_BYTES * parameters(layers, expected)
        if options.strategies is None and "offload=all" in SETTINGS[strategy] and on_host > MOST_HOST_BYTES:
            print(f"Left out: `{strategy}`, {on_host / 1e9:.0f} GB on the host; --strategies \"{strategy}\" measures it.\n")
            continue
        dim = widest(expected, lambda dim: trainer.accepts(strategy, dim))
        bound, peak = trainer.train(strategy, dim)
        size, wanted = parameters(layers, dim), parameters(layers, expected)
        sizes[strategy] = size
        table.add(f"`{strategy}`", f"{size / 1e6:.0f} M parameters (dim {dim}; bound {bound / 1e6:.0f} MB, peak {peak / 1e6:.0f} MB); formula "
                  f"{wanted / 1e6:.0f} M; {size / wanted:.3f}", f"within {TOLERANCE:.0%}", math.isclose(size, wanted, rel_tol=TOLERANCE))
    for order in (("ddp", "zero1", "zero2", "full"), ("ddp", "zero1", "zero2, serial", "full")):
        if set(order) <= set(sizes):
            found = [sizes[strategy] for strategy in order]
            table.add(" < ".join(f"`{strategy}`" for strategy in order), " < ".join(f"{size / 1e6:.0f}" for size in found), "ordered",
                      found == sorted(set(found)))
    table.print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
