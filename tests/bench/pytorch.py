#!/usr/bin/env python3
"""Step time and memory beside PyTorch's FSDP2, FSDP1 and DDP, 2 ranks of one thread each, and ranks that do not communicate."""
import argparse
import contextlib
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "parity"))
import environment  # noqa: E402  (needs the path above)
from ranks import Ranks  # noqa: E402

RANKS = 2
WARM_UP_STEPS = 2
RETRY_S = 2
# The fsdp1 preset gathers and reduces without copies (docs/schedule.md); fsdp2 copies in and out, as FSDP2 does.
OURS, OURS_COPYING, OURS_GLOO = "Shardscope, preset=fsdp1", "Shardscope, preset=fsdp2", "Shardscope, preset=fsdp1 transport=gloo"
ALONE = "no communication"
PYTORCH = {"FSDP2": "fsdp2", "FSDP1": "fsdp1", "DDP": "ddp"}


@dataclass(frozen=True)
class Shape:
    """A model, the samples of a rank, and the largest allowed ratios of step time: (ours, other, budget)."""

    layers: int
    dim: int
    heads: int
    batch: int
    seq: int
    budgets: tuple[tuple[str, str, float], ...]

    def __str__(self) -> str:
        return f"dim {self.dim}, {self.layers} layers, {self.batch} x {self.seq} tokens a rank"


SHAPES = (
    Shape(6, 512, 8, 4, 128, ((OURS, "FSDP2", 0.70), (OURS, "DDP", 0.95), (OURS, ALONE, 1.15), (OURS_GLOO, "FSDP2", 0.95))),
    Shape(6, 768, 12, 1, 32, ((OURS, "FSDP2", 0.27), (OURS, "DDP", 0.60), (OURS, ALONE, 1.10), (OURS_GLOO, "FSDP2", 0.95))),
)


@dataclass
class Burst:
    """Some consecutive steps of one competitor."""

    steps_ns: list[int]
    cpu_ns: int  # that its processes used while they were measured, to tell foreign use
    peak_bytes: int


@dataclass
class Result:
    steps_ns: list[int] = field(default_factory=list)
    peak_bytes: int = 0

    def milliseconds(self) -> float:
        return statistics.median(self.steps_ns) / 1e6


def busy_ns() -> int:
    """CPU time that all processes of the machine have used, idle and waiting for disks left out; stolen time counts."""
    with open("/proc/stat") as stat:
        user, nice, system, _, _, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def run_child(command: list[str]) -> tuple[str, int, int]:
    """Output, CPU time and peak resident bytes of one program that must succeed."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{text[-2000:]}")
    return text, int((usage.ru_utime + usage.ru_stime) * 1e9), usage.ru_maxrss * 1024


def measure_ours(build: pathlib.Path, shape: Shape, steps: int, *settings: str, ranks: int = RANKS) -> Burst:
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        _, cpu_ns, peak_bytes = run_child([
            str(build / "bin" / "shardscope-train"), "--ranks", str(ranks), "--out", str(run), "--set",
            *settings, f"data.path={ROOT}", f"model.layers={shape.layers}", f"model.dim={shape.dim}",
            f"model.heads={shape.heads}", f"model.seq={shape.seq}", f"train.batch={shape.batch}",
            f"train.steps={WARM_UP_STEPS + steps}"])
        report_text, report_cpu_ns, _ = run_child([str(build / "bin" / "shardscope"), "report", str(run), "--json"])
    slowest: dict[int, int] = {}
    for row in json.loads(report_text)["steps"]:
        slowest[row["step"]] = max(row["step_ns"], slowest.get(row["step"], 0))
    return Burst([slowest[step] for step in sorted(slowest)][WARM_UP_STEPS:], cpu_ns + report_cpu_ns, peak_bytes)


def measure_alone(build: pathlib.Path, shape: Shape, steps: int) -> Burst:
    numbers = (RANKS, shape.layers, shape.dim, shape.heads, shape.seq, shape.batch, WARM_UP_STEPS + steps)
    text, cpu_ns, peak_bytes = run_child([str(build / "bin" / "no_communication"), *map(str, numbers)])
    by_rank = json.loads(text)["steps_ns"]
    # Nothing makes these ranks wait for each other: each step of each counts.
    return Burst([step_ns for rank in by_rank for step_ns in rank[WARM_UP_STEPS:]], cpu_ns, peak_bytes)


def measure_pytorch(ranks: Ranks, steps: int) -> Burst:
    ranks.send(str(WARM_UP_STEPS + steps))
    answers = [json.loads(line) for line in ranks.receive()]
    steps_ns = [max(times) for times in zip(*(answer["steps_ns"] for answer in answers))]
    return Burst(steps_ns[WARM_UP_STEPS:], sum(answer["cpu_ns"] for answer in answers),
                 sum(answer["peak_bytes"] for answer in answers))


class Guard:
    """Repeats a burst in which other programs used the CPU."""

    def __init__(self, foreign: float, patience_s: float) -> None:
        self.foreign = foreign  # largest share of the cores' time that others may use
        self.patience_s = patience_s
        self.bursts = 0
        self.discarded = 0

    def measure(self, name: str, burst: Callable[[], Burst]) -> Burst:
        deadline = time.monotonic() + self.patience_s
        while True:
            result, foreign = self.attempt(burst)
            self.bursts += 1
            if foreign <= self.foreign:
                return result
            self.discarded += 1
            print(f"{name}: others used {foreign:.0%} of the cores; again", file=sys.stderr)
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name}: disturbed by other programs for {self.patience_s:.0f} s: stop them and try again")
            time.sleep(RETRY_S)

    @staticmethod
    def attempt(burst: Callable[[], Burst]) -> tuple[Burst, float]:
        """A burst, and the share of the cores' time that neither it nor this script used."""
        start_ns, busy_start_ns = time.monotonic_ns(), busy_ns()
        own = resource.getrusage(resource.RUSAGE_SELF)
        result = burst()
        own_end = resource.getrusage(resource.RUSAGE_SELF)
        available_ns = (time.monotonic_ns() - start_ns) * (os.cpu_count() or 1)
        own_ns = int((own_end.ru_utime + own_end.ru_stime - own.ru_utime - own.ru_stime) * 1e9)
        return result, (busy_ns() - busy_start_ns - result.cpu_ns - own_ns) / available_ns


def is_built(build: pathlib.Path, transport: str) -> bool:
    """Whether the trainer knows the transport: it trains the smallest model for one step."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(build / "bin" / "shardscope-train"), "--ranks", "1", "--out", f"{folder}/run", "--set",
                   f"transport={transport}", "model.layers=1", "model.dim=8", "model.heads=1", "train.steps=1"]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode == 0


def measure_shape(build: pathlib.Path, shape: Shape, rounds: int, steps: int, guard: Guard) -> dict[str, Result]:
    """Every competitor once a round, one after the other, so that a slow minute of the machine hits all alike."""
    with contextlib.ExitStack() as stack:
        burst: dict[str, Callable[[], Burst]] = {
            OURS: lambda: measure_ours(build, shape, steps, "preset=fsdp1", "transport=shared_memory"),
            OURS_COPYING: lambda: measure_ours(build, shape, steps, "preset=fsdp2", "transport=shared_memory"),
        }
        for name, strategy in PYTORCH.items():
            numbers = (shape.layers, shape.dim, shape.heads, shape.seq, shape.batch, 1)
            ranks = stack.enter_context(Ranks("speed.py", RANKS, strategy, *map(str, numbers)))
            ranks.receive()
            burst[name] = lambda ranks=ranks: measure_pytorch(ranks, steps)
        burst[ALONE] = lambda: measure_alone(build, shape, steps)
        if is_built(build, "gloo"):
            burst[OURS_GLOO] = lambda: measure_ours(build, shape, steps, "preset=fsdp1", "transport=gloo")
        results = {name: Result() for name in burst}
        for _ in range(rounds):
            for name, measure in burst.items():
                measured = guard.measure(name, measure)
                results[name].steps_ns += measured.steps_ns
                results[name].peak_bytes = max(results[name].peak_bytes, measured.peak_bytes)
    return results


def print_shape(shape: Shape, results: dict[str, Result]) -> None:
    print(f"\n{shape}:\n\n| | step, median | quartiles | peak resident memory |\n|---|---|---|---|")
    for name in (OURS, OURS_COPYING, OURS_GLOO, *PYTORCH, ALONE):
        if name not in results:
            print(f"| {name} | not built | | |")
            continue
        result = results[name]
        low, _, high = statistics.quantiles(result.steps_ns, n=4)
        print(f"| {name} | {result.milliseconds():.0f} ms | {low / 1e6:.0f}-{high / 1e6:.0f} ms | "
              f"{result.peak_bytes / 1e6:.0f} MB |")
    print("\n| ratio of medians | measured | budget | |\n|---|---|---|---|")
    for ours, other, budget in shape.budgets:
        if ours not in results:
            print(f"| {ours} / {other} | not built | <= {budget:.2f} | MISS |")
            continue
        ratio = results[ours].milliseconds() / results[other].milliseconds()
        print(f"| {ours} / {other} | {ratio:.2f} | <= {budget:.2f} | {'PASS' if ratio <= budget else 'MISS'} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--quick", action="store_true", help="one round of two steps")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8, help="measured steps of a competitor in a round")
    parser.add_argument("--shape", type=int, choices=(1, 2), help="only the first or the second shape")
    parser.add_argument("--foreign", type=float, default=0.03, help="share of the cores that other programs may use")
    parser.add_argument("--patience", type=float, default=600, help="seconds for which a disturbed burst is repeated")
    options = parser.parse_args()
    rounds, steps = (1, 2) if options.quick else (options.rounds, options.steps)
    try:
        environment.python()
        guard = Guard(options.foreign, options.patience)
        measured = [(shape, measure_shape(options.build, shape, rounds, steps, guard))
                    for index, shape in enumerate(SHAPES, 1) if options.shape in (None, index)]
    except (environment.SetupError, RuntimeError, OSError) as error:
        print(f"bench pytorch: {error}", file=sys.stderr)
        return 1
    print(f"{RANKS} ranks of one thread each, fp32, fused AdamW, gradient norm clipped; {rounds} rounds, in each of which every "
          f"row runs {WARM_UP_STEPS} steps of warm-up and {steps} measured ones; PyTorch 2.11 with gloo, one process a rank "
          "(memory: their sum).")
    print(f"\"{ALONE}\" is tests/bench/no_communication.cc: the engine's kernels without schedule, copies or collectives.")
    for shape, results in measured:
        print_shape(shape, results)
    print(f"\nBursts in which other programs used more than {options.foreign:.0%} of the cores, which were "
          f"repeated: {guard.discarded} of {guard.bursts}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
