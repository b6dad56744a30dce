"""Collectives on a GPU: among virtual ranks, on an emulated link, by NCCL; and what prefetch does with them."""

import statistics

from .checks_engine import LOCAL, largest_difference
from .checks_tracing import JOIN_RATE
from .lab import CUDA, SMALL, Skip

# Pieces of some 10 MB: latencies and launches do not matter beside them.
LARGE = ("model.layers=4", "model.dim=1024", "model.heads=8", "model.seq=64", "train.batch=1", "train.warmup_steps=2")
STEPS = 6
WARM_UP_STEPS = 2
BANDWIDTHS = {"5GB/s": 5e9, "20GB/s": 20e9, "80GB/s": 80e9}
LATENCY_S = 20e-6

# From the first work, which is the reservation of the link and waits for all ranks' streams, or the end of the collective
# before on the same communicator, to the last end.
TRANSFERS = f"""
WITH one AS (
  SELECT c.communicator, c.sequence, max(c.wire_bytes) AS wire_bytes, min(r.started_ns) AS arrived_ns, max(r.ended_ns) AS ended_ns
  FROM collective c JOIN op_run r ON r.id = c.op_run WHERE c.step >= {WARM_UP_STEPS} GROUP BY 1, 2),
queue AS (SELECT *, lag(ended_ns, 1, 0) OVER (ORDER BY ended_ns) AS before_ns FROM one)
SELECT wire_bytes, (ended_ns - max(arrived_ns, before_ns)) / 1e9 AS seconds FROM queue WHERE wire_bytes >= 4000000
"""
KERNELS = f"""
SELECT t.rank AS rank, s.category AS category, s.start_ns AS start_ns, s.start_ns + s.duration_ns AS end_ns
FROM gpu_work g JOIN span s ON s.id = g.id JOIN track t ON t.id = s.track
WHERE s.category IN ('compute', 'communication') AND g.times = 'measured' AND g.step >= {WARM_UP_STEPS} ORDER BY s.start_ns
"""


def local_bandwidth(lab):
    """Called HBM copy, never a link: the bytes never leave the GPU."""
    rows = lab.sql(lab.train("local", *LOCAL, *LARGE, f"train.steps={STEPS}"), TRANSFERS)
    rates = [row["wire_bytes"] / row["seconds"] / 1e9 for row in rows if row["seconds"] > 0]
    return {"collectives": len(rates), "gb_s": statistics.median(rates) if rates else 0}


def emulated_bandwidth(lab):
    figures, deviations = {}, []
    for name, bandwidth in BANDWIDTHS.items():
        run = lab.train(f"emulated-{name.replace('/', '-')}", *CUDA, "run.ranks=2", "transport=emulated", *LARGE,
                        f"link.bandwidth={name}", f"link.latency={LATENCY_S * 1e6:g}us", f"train.steps={STEPS}")
        ratios = [row["seconds"] / (LATENCY_S + row["wire_bytes"] / bandwidth) for row in lab.sql(run, TRANSFERS)]
        figures[f"ratio_at_{name}"] = statistics.median(ratios)
        deviations.append(abs(figures[f"ratio_at_{name}"] - 1))
    return {**figures, "bandwidths": len(deviations), "largest_deviation": max(deviations)}


def nccl_one_rank(lab):
    settings = (*SMALL, "run.ranks=1", "train.steps=6")
    nccl = lab.losses("nccl", *CUDA, "transport=nccl", *settings)
    local = lab.losses("one-rank", *CUDA, "transport=local", *settings)
    return {"steps": len(nccl), "largest_relative_difference": largest_difference(nccl, local)}


def nccl_multi_gpu(lab):
    """A thread a GPU: both communicators, losses as those of virtual ranks on one GPU, kernels that belong to ops."""
    if lab.gpu.count < 2:
        raise Skip(f"not run: {lab.gpu.count} device")
    settings = (*SMALL, "run.ranks=2", "train.steps=6")
    nccl = lab.losses("nccl-two", *CUDA, "transport=nccl", "comm.communicators=2", *settings)
    local = lab.losses("local-two", *CUDA, "transport=local", *settings)
    joined = lab.sql(lab.folder / "nccl-two", JOIN_RATE)[0]
    return {"gpus": 2, "steps": len(nccl), "largest_relative_difference": largest_difference(nccl, local),
            "joined_share": joined["joined"] / max(joined["kernels"], 1)}


def overlapping_pairs(rows):
    """Pairs of a communication and a compute kernel of one rank that ran at the same moment; rows in order of start."""
    pairs = 0
    running = {}
    for row in rows:
        others = running.setdefault((row["rank"], "compute" if row["category"] == "communication" else "communication"), [])
        others[:] = [end for end in others if end > row["start_ns"]]
        pairs += len(others)
        running.setdefault((row["rank"], row["category"]), []).append(row["end_ns"])
    return pairs


def prefetch_overlap(lab):
    pairs = {}
    for name, settings in (("on", ("prefetch.backward=pre", "prefetch.forward=1")),
                           ("off", ("prefetch.backward=none", "prefetch.forward=0", "host.run_ahead=0"))):
        run = lab.train(f"prefetch-{name}", *CUDA, "run.ranks=2", "transport=emulated", "link.bandwidth=20GB/s", *LARGE,
                        f"train.steps={STEPS}", *settings)
        pairs[name] = overlapping_pairs(lab.sql(run, KERNELS))
    return {"pairs_on": pairs["on"], "pairs_off": pairs["off"], "gained_pairs": pairs["on"] - pairs["off"]}
