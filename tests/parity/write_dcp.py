"""Runs in the environment of scripts/compare_transformers: trains transformers' model of a case for two steps and saves it with
torch.distributed.checkpoint. Arguments: the case, whose names and order of rows (STYLES), the folder. Prints, as JSON, what every tensor is in
transformers' own order: {"parameter" or a state of AdamW: {name of the parameter: values}}."""

import json
import pathlib
import sys

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

import llama_cases
from run_transformers import logits_of, make_model

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from dcp_folders import torchtitan_name  # noqa: E402  (needs the path above)

STYLES = ("transformers", "torchtitan", "newer")  # the last one is torchtitan of 2026, whose optimizer has queries, keys and values in one
STEPS = 2
STATES = ("exp_avg", "exp_avg_sq")


def in_pairs(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """torchtitan, models/llama3/state_dict_adapter.py, _reverse_permute()."""
    return rows.view(heads, 2, rows.shape[0] // heads // 2, rows.shape[1]).transpose(1, 2).reshape(rows.shape)


def trained(case: llama_cases.Case) -> tuple[dict, dict]:
    """State dictionaries of model and optimizer, the latter flattened as torchtitan does it."""
    model = make_model(case)
    optimizer = torch.optim.AdamW(model.parameters(), lr=llama_cases.LEARNING_RATE)
    rows = torch.tensor(llama_cases.tokens(case.config["vocab_size"]))
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits_of(model, rows).flatten(0, 1), rows[:, 1:].flatten()).backward()
        optimizer.step()
    return get_state_dict(model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True))


def as_torchtitan(weights: dict, states: dict, config: dict, newer: bool) -> tuple[dict, dict]:
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}

    def ordered(name: str, tensor: torch.Tensor) -> torch.Tensor:
        return in_pairs(tensor, heads[name.split(".")[-2]]) if name.split(".")[-2] in heads else tensor

    named = {torchtitan_name(name, newer): ordered(name, tensor) for name, tensor in weights.items()}
    kept = {}
    for name in weights:
        for state in (*STATES, "step"):
            tensor = states[f"state.{name}.{state}"]
            kept[f"state.{torchtitan_name(name, newer)}.{state}"] = ordered(name, tensor) if tensor.dim() > 1 else tensor
    if newer:
        for layer in range(config["num_hidden_layers"]):
            linear = f"state.layers.{layer}.attention.qkv_linear"
            for state in (*STATES, "step"):
                queries, keys, values = (kept.pop(f"{linear}.{part}.weight.{state}") for part in ("wq", "wk", "wv"))
                if state != "step":
                    groups = [part.view(config["num_key_value_heads"], -1, *part.shape[1:]) for part in (queries, keys, values)]
                    queries = torch.cat(groups, dim=1).flatten(0, 1)
                kept[f"{linear}.wqkv.weight.{state}"] = queries
    return named, kept


def main() -> None:
    name, style, folder = sys.argv[1:]
    case = next(case for case in llama_cases.CASES if case.name == name)
    torch.set_num_threads(1)
    weights, states = trained(case)
    if case.config["tie_word_embeddings"]:
        states = {key: value for key, value in states.items() if "lm_head" not in key}
    own = {key: value for key, value in weights.items() if f"state.{key}.exp_avg" in states}
    expected = {"parameter": own} | {state: {key: states[f"state.{key}.{state}"] for key in own} for state in STATES}
    saved = {"model": weights, "optimizer": states}
    if style != "transformers":
        named, kept = as_torchtitan(weights, states, case.config, style == "newer")
        saved = {**named, "optimizer": kept, "train_state": {"step": torch.tensor(STEPS, dtype=torch.int32)}}
    dcp.save(saved, checkpoint_id=folder)
    print(json.dumps({tensor: {key: value.flatten().tolist() for key, value in of.items()} for tensor, of in expected.items()}))


if __name__ == "__main__":
    main()
