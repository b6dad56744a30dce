#!/usr/bin/env python3
"""Step time and memory of a Llama beside transformers' model under FSDP2, 2 ranks of one thread each."""
import argparse
import contextlib
import json
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pytorch import RANKS, ROOT, WARM_UP_STEPS, Burst, Guard, Result, Ranks, environment, measure_pytorch, run_child  # noqa: E402

LAYERS, DIM, HEADS, KV_HEADS, FFN, VOCABULARY, SEQ, BATCH = 8, 512, 8, 4, 1408, 4096, 256, 2
CONFIG = {"model_type": "llama", "hidden_size": DIM, "intermediate_size": FFN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
          "num_key_value_heads": KV_HEADS, "vocab_size": VOCABULARY, "tie_word_embeddings": False, "max_position_embeddings": SEQ}
MOST_TIME, MOST_MEMORY = 0.70, 0.50  # of what FSDP2 takes


@dataclass(frozen=True)
class Row:
    """What both sides train with: settings of ours, arguments of speed_transformers.py."""

    name: str
    settings: tuple[str, ...]
    arguments: tuple[str, ...]


ROWS = (
    Row("fp32", ("precision.param=fp32",), ("fp32",)),
    Row("bf16", ("precision.param=bf16",), ("bf16",)),
)


def measure_ours(build: pathlib.Path, folder: pathlib.Path, row: Row, steps: int) -> Burst:
    _, cpu_ns, peak_bytes = run_child([
        str(build / "bin" / "shardscope-train"), "--ranks", str(RANKS), "--out", str(folder), "--set", *row.settings, f"data.path={ROOT}",
        "model.kind=llama", f"model.layers={LAYERS}", f"model.dim={DIM}", f"model.heads={HEADS}", f"model.kv_heads={KV_HEADS}",
        f"model.ffn={FFN}", f"model.vocab={VOCABULARY}", f"model.seq={SEQ}", f"train.batch={BATCH}", f"train.steps={WARM_UP_STEPS + steps}"])
    text, report_cpu_ns, _ = run_child([str(build / "bin" / "shardscope"), "report", str(folder), "--json"])
    slowest: dict[int, int] = {}
    for step in json.loads(text)["steps"]:
        slowest[step["step"]] = max(step["step_ns"], slowest.get(step["step"], 0))
    return Burst([slowest[step] for step in sorted(slowest)][WARM_UP_STEPS:], cpu_ns + report_cpu_ns, peak_bytes)


def measure_row(build: pathlib.Path, row: Row, rounds: int, steps: int, guard: Guard) -> tuple[Result, Result]:
    """Ours and FSDP2's, in turn, so that a slow minute of the machine hits both."""
    ours, theirs = Result(), Result()
    with contextlib.ExitStack() as stack:
        ranks = stack.enter_context(Ranks("speed_transformers.py", RANKS, json.dumps(CONFIG), str(SEQ), str(BATCH), *row.arguments))
        ranks.receive()
        for _ in range(rounds):
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory())) / "run"
            bursts: tuple[tuple[Result, Callable[[], Burst]], ...] = (
                (ours, lambda folder=folder: measure_ours(build, folder, row, steps)),
                (theirs, lambda: measure_pytorch(ranks, steps)))
            for result, burst in bursts:
                measured = guard.measure(row.name, burst)
                result.steps_ns += measured.steps_ns
                result.peak_bytes = max(result.peak_bytes, measured.peak_bytes)
    return ours, theirs


def line(row: Row, ours: Result, theirs: Result) -> str:
    time, memory = ours.milliseconds() / theirs.milliseconds(), ours.peak_bytes / theirs.peak_bytes
    low, _, high = statistics.quantiles(ours.steps_ns, n=4)
    passes = time <= MOST_TIME and memory <= MOST_MEMORY
    return (f"| {row.name} | {ours.milliseconds():.0f} ms ({low / 1e6:.0f}-{high / 1e6:.0f}) | {theirs.milliseconds():.0f} ms | "
            f"{time:.2f} (<= {MOST_TIME:.2f}) | {ours.peak_bytes / 1e6:.0f} / {theirs.peak_bytes / 1e6:.0f} MB | "
            f"{memory:.2f} (<= {MOST_MEMORY:.2f}) | {'PASS' if passes else 'MISS'} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true", help="one round of two steps")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8, help="measured steps of each side in a round")
    parser.add_argument("--row", choices=[row.name for row in ROWS], help="only this one")
    parser.add_argument("--foreign", type=float, default=0.03, help="share of the cores that other programs may use")
    parser.add_argument("--patience", type=float, default=600, help="seconds for which a disturbed burst is repeated")
    options = parser.parse_args()
    rounds, steps = (1, 2) if options.quick else (options.rounds, options.steps)
    lines = []
    try:
        environment.transformers_python()
        guard = Guard(options.foreign, options.patience)
        for row in ROWS:
            if options.row in (None, row.name):
                lines.append(line(row, *measure_row(options.build, row, rounds, steps, guard)))
    except (environment.SetupError, RuntimeError, OSError) as error:
        print(f"bench training: {error}", file=sys.stderr)
        return 1
    print(f"Llama of {LAYERS} layers, dim {DIM}, {HEADS} heads on {KV_HEADS}, MLP {FFN}, vocabulary {VOCABULARY}; {BATCH} x {SEQ} tokens a "
          f"rank, {RANKS} ranks of one thread each, AdamW, gradient norm clipped; {rounds} rounds of {WARM_UP_STEPS} steps of warm-up and "
          f"{steps} measured ones of each side. transformers' LlamaForCausalLM under FSDP2 (PyTorch 2.11, gloo, a process a rank; memory: "
          "their sum).\n")
    print("| | Shardscope, median (quartiles) | FSDP2 | ratio | peak resident | ratio | |\n|---|---|---|---|---|---|---|")
    print("\n".join(sorted(lines, key=lambda text: "MISS" not in text)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
