"""Runs in the environment of scripts/compare_transformers: prints, as JSON, transformers' logits and losses of a case. Arguments: its name, and a
size of the vocabulary where it is to have another."""

import dataclasses
import json
import math
import sys

import torch
import torch.distributed as dist
import transformers
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

import llama_cases
from number_cases import SCALE

BETAS = (0.9, 0.95)  # engine/model/training_settings.h


def make_model(case: llama_cases.Case) -> torch.nn.Module:
    config = transformers.AutoConfig.for_model(**case.config)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    if type(model).__name__ != case.config["architectures"][0]:
        raise RuntimeError(f"{case.name}: transformers made a {type(model).__name__}")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.tensor(llama_cases.weights(name, list(parameter.shape)), dtype=torch.float64)
            parameter.copy_(values.view(parameter.shape))
    return model


def logits_of(model: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    return model(input_ids=rows[:, :-1], use_cache=False).logits


def train(case: llama_cases.Case, dtype: torch.dtype, rows: torch.Tensor) -> dict[str, list]:
    """Losses of steps on all rows, and which were skipped. As FSDP's mixed precision: weights are cast for forward and backward, gradients and
    the optimizer are fp32, and fp16 has a scaler."""
    master, case_model = make_model(case), make_model(case).to(dtype)
    optimizer = torch.optim.AdamW(master.parameters(), betas=BETAS, eps=1e-8, weight_decay=0.01)
    scaler = ShardedGradScaler("cpu", enabled=dtype == torch.float16, **SCALE)
    losses, skipped = [], []
    for step in range(llama_cases.STEPS):
        with torch.no_grad():
            for ours, theirs in zip(case_model.parameters(), master.parameters()):
                ours.copy_(theirs)
                ours.grad = None
        logits = logits_of(case_model, rows).float()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        scaler.scale(loss).backward()
        for ours, theirs in zip(case_model.parameters(), master.parameters()):
            theirs.grad = ours.grad.float()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(master.parameters(), 1.0)
        if not math.isfinite(norm.item()):
            skipped.append(step)
        optimizer.param_groups[0]["lr"] = llama_cases.LEARNING_RATE * min(1.0, (step + 1) / llama_cases.WARM_UP_STEPS)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return {"losses": losses, "skipped": skipped}


def main() -> None:
    case = next(case for case in llama_cases.CASES if case.name == sys.argv[1])
    if len(sys.argv) > 2:
        case = dataclasses.replace(case, differs={**case.differs, "vocab_size": int(sys.argv[2])})
    torch.set_num_threads(1)
    rows = torch.tensor(llama_cases.tokens(case.config["vocab_size"]))
    with torch.no_grad():
        logits = logits_of(make_model(case), rows)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # the scaler asks all ranks
    trained = {name: train(case, dtype, rows)
               for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16))}
    dist.destroy_process_group()
    print(json.dumps({"transformers": transformers.__version__, "logits": [round(value, 7) for value in logits[0].flatten().tolist()],
                      **{what: {name: run[what] for name, run in trained.items()} for what in ("losses", "skipped")}}))


if __name__ == "__main__":
    main()
