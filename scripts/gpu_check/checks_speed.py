"""Speed on a GPU: what recording costs, and a large model beside PyTorch."""

import json
import statistics

from .checks_engine import LOCAL
from .lab import CUDA, CUPTI_OFF, Failure

WARM_UP_STEPS = 3
ROUNDS = 30  # each a step that is not recorded between two that are, so that a clock that drifts meets both sides
ROUND_STEPS, OTHER_STEPS = 4, 4  # as engine/runtime/overhead.h counts

GPU_BOUND = (*CUDA, "run.ranks=1", "transport=local", "precision.param=bf16", "model.layers=4", "model.dim=2048", "model.heads=16",
             "model.seq=1024", "train.batch=8")
CPU_BOUND = (*LOCAL, "model.layers=8", "model.dim=64", "model.heads=4", "model.seq=16", "train.batch=1")

LAYERS, DIM, HEADS, SEQ, BATCH, STEPS = 20, 2048, 16, 2048, 4, 12
# Dense bf16, without sparsity, as NVIDIA's data sheets say (operations a second).
PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12}


def step_s(lab, run):
    """Median over the steps after warm-up, of the slowest rank."""
    slowest = {}
    for row in lab.report(run)["steps"]:
        slowest[row["step"]] = max(row["step_ns"], slowest.get(row["step"], 0))
    return statistics.median(slowest[step] for step in sorted(slowest)[WARM_UP_STEPS:]) / 1e9


def overhead(lab, name, settings):
    """As the run measures it: a step that is not recorded has neither CUPTI nor CUDA events that take times."""
    run = lab.train(name, *settings, f"record.measure_overhead={ROUNDS}", f"train.steps={ROUNDS * ROUND_STEPS + OTHER_STEPS}")
    measured = lab.report(run)["overhead"]
    if measured is None:
        raise Failure("the run measured nothing")
    return {"ratio": measured["ratio"], "lowest": measured["lowest"], "highest": measured["highest"], "rounds": measured["rounds"],
            "step_ms_off": measured["unrecorded_ns"] / 1e6}


def overhead_gpu_bound(lab):
    return overhead(lab, "gpu-bound", GPU_BOUND)


def overhead_cpu_bound(lab):
    return overhead(lab, "cpu-bound", CPU_BOUND)


def operations_a_token(layers, dim, seq):
    """Of a training step: 6 a weight that multiplies, and of causal attention (half of the square) 6 seq dim a layer."""
    weights = layers * 12 * dim * dim + 256 * dim
    return 6 * weights + 6 * layers * seq * dim


def speed_1b(lab):
    tokens = BATCH * SEQ
    shape = (f"model.layers={LAYERS}", f"model.dim={DIM}", f"model.heads={HEADS}", f"model.seq={SEQ}", f"train.batch={BATCH}")
    run = lab.train("speed", *CUDA, "run.ranks=1", "transport=local", "precision.param=bf16", *shape, f"train.steps={STEPS}",
                    environment=CUPTI_OFF, limit_s=200)
    ours = tokens / step_s(lab, run)
    answer = lab.pytorch("fsdp2_speed.py", LAYERS, DIM, HEADS, SEQ, BATCH, STEPS, limit_s=200)
    steps = json.loads(answer.splitlines()[-1])["steps_s"]
    theirs = tokens / statistics.median(steps[WARM_UP_STEPS:])
    figures = {"tokens_s": ours, "pytorch_tokens_s": theirs, "of_pytorch": ours / theirs}
    peak = next((value for name, value in PEAKS.items() if name in lab.gpu.name), None)
    if peak is not None:
        figures["share_of_peak"] = ours * operations_a_token(LAYERS, DIM, SEQ) / peak
    return figures
