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

MOST_TIME, MOST_MEMORY = 0.70, 0.50  # of what FSDP2 takes


@dataclass(frozen=True)
class Model:
    layers: int
    dim: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    seq: int
    batch: int

    def settings(self) -> list[str]:
        return ["model.kind=llama", *(f"model.{key}={getattr(self, key)}" for key in ("layers", "dim", "heads", "kv_heads", "ffn", "vocab", "seq")),
                f"train.batch={self.batch}"]

    def config(self) -> dict:
        return {"model_type": "llama", "hidden_size": self.dim, "intermediate_size": self.ffn, "num_hidden_layers": self.layers,
                "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "vocab_size": self.vocab, "tie_word_embeddings": False,
                "max_position_embeddings": self.seq}


MODEL = Model(layers=8, dim=512, heads=8, kv_heads=4, ffn=1408, vocab=4096, seq=256, batch=2)
SMALL = Model(layers=2, dim=64, heads=4, kv_heads=2, ffn=176, vocab=512, seq=32, batch=2)


@dataclass(frozen=True)
class Row:
    """What both sides train with: settings of ours, arguments of speed_transformers.py."""

    name: str
    settings: tuple[str, ...]
    arguments: tuple[str, ...]


ROWS = (
    Row("fp32", ("precision.param=fp32",), ("fp32",)),
    Row("bf16", ("precision.param=bf16",), ("bf16",)),
    Row("checkpointing", ("precision.param=fp32", "checkpointing=full"), ("fp32", "checkpointing")),
    Row("offload", ("precision.param=fp32", "offload=all"), ("fp32", "offload")),
)


def measure_ours(build: pathlib.Path, model: Model, row: Row, steps: int) -> Burst:
    with tempfile.TemporaryDirectory() as folder:
        run = f"{folder}/run"
        _, cpu_ns, peak_bytes = run_child([
            str(build / "bin" / "shardscope-train"), "--ranks", str(RANKS), "--out", run, "--set", *row.settings, f"data.path={ROOT}",
            *model.settings(), f"train.steps={WARM_UP_STEPS + steps}"])
        text, report_cpu_ns, _ = run_child([str(build / "bin" / "shardscope"), "report", run, "--json"])
    slowest: dict[int, int] = {}
    for step in json.loads(text)["steps"]:
        slowest[step["step"]] = max(step["step_ns"], slowest.get(step["step"], 0))
    return Burst([slowest[step] for step in sorted(slowest)][WARM_UP_STEPS:], cpu_ns + report_cpu_ns, peak_bytes)


def measure_row(build: pathlib.Path, model: Model, row: Row, rounds: int, steps: int, guard: Guard) -> tuple[Result, Result]:
    """Ours and FSDP2's, in turn, so that a slow minute of the machine hits both."""
    ours, theirs = Result(), Result()
    with contextlib.ExitStack() as stack:
        ranks = stack.enter_context(Ranks("speed_transformers.py", RANKS, json.dumps(model.config()), str(model.seq), str(model.batch),
                                          *row.arguments))
        ranks.receive()
        for _ in range(rounds):
            bursts: tuple[tuple[Result, Callable[[], Burst]], ...] = (
                (ours, lambda: measure_ours(build, model, row, steps)), (theirs, lambda: measure_pytorch(ranks, steps)))
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
    parser.add_argument("--quick", action="store_true", help="one round of two steps of a small model, whatever else runs: to see that it runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8, help="measured steps of each side in a round")
    parser.add_argument("--row", choices=[row.name for row in ROWS], help="only this one")
    parser.add_argument("--foreign", type=float, default=0.03, help="share of the cores that other programs may use")
    parser.add_argument("--patience", type=float, default=600, help="seconds for which a disturbed burst is repeated")
    options = parser.parse_args()
    model, rounds, steps = (SMALL, 1, 2) if options.quick else (MODEL, options.rounds, options.steps)
    lines = []
    try:
        environment.transformers_python()
        guard = Guard(1.0 if options.quick else options.foreign, options.patience)
        for row in ROWS:
            if options.row in (None, row.name):
                lines.append(line(row, *measure_row(options.build, model, row, rounds, steps, guard)))
    except (environment.SetupError, RuntimeError, OSError) as error:
        print(f"bench training: {error}", file=sys.stderr)
        return 1
    print(f"Llama of {model.layers} layers, dim {model.dim}, {model.heads} heads on {model.kv_heads}, MLP {model.ffn}, vocabulary {model.vocab}; "
          f"{model.batch} x {model.seq} tokens a rank, {RANKS} ranks of one thread each, AdamW, gradient norm clipped; "
          f"{rounds} rounds of {WARM_UP_STEPS} steps of warm-up and {steps} measured ones of each side. transformers' LlamaForCausalLM under FSDP2 (PyTorch 2.11, gloo, a process a rank; memory: "
          "their sum).\n")
    print("| | Shardscope, median (quartiles) | FSDP2 | ratio | peak resident | ratio | |\n|---|---|---|---|---|---|---|")
    print("\n".join(sorted(lines, key=lambda text: "MISS" not in text)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
