"""Runs in the environment of scripts/compare_transformers: prints, as JSON, transformers' logits and losses of a case."""

import json
import sys

import torch
import transformers

import llama_cases

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


def train(master: torch.nn.Module, dtype: torch.dtype, rows: torch.Tensor) -> list[float]:
    """Losses of steps on all rows. As FSDP's mixed precision: weights are cast for forward and backward, gradients and the optimizer
    are fp32."""
    case_model = make_model(next(case for case in llama_cases.CASES if case.name == sys.argv[1])).to(dtype)
    optimizer = torch.optim.AdamW(master.parameters(), betas=BETAS, eps=1e-8, weight_decay=0.01)
    losses = []
    for step in range(llama_cases.STEPS):
        with torch.no_grad():
            for ours, theirs in zip(case_model.parameters(), master.parameters()):
                ours.copy_(theirs)
                ours.grad = None
        logits = logits_of(case_model, rows).float()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        for ours, theirs in zip(case_model.parameters(), master.parameters()):
            theirs.grad = ours.grad.float()
        torch.nn.utils.clip_grad_norm_(master.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = llama_cases.LEARNING_RATE * min(1.0, (step + 1) / llama_cases.WARM_UP_STEPS)
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    case = next(case for case in llama_cases.CASES if case.name == sys.argv[1])
    torch.set_num_threads(1)
    rows = torch.tensor(llama_cases.tokens(case.config["vocab_size"]))
    with torch.no_grad():
        logits = logits_of(make_model(case), rows)
    losses = {name: train(make_model(case), dtype, rows) for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16))}
    print(json.dumps({"transformers": transformers.__version__, "logits": [round(value, 7) for value in logits[0].flatten().tolist()],
                      "losses": losses}))


if __name__ == "__main__":
    main()
