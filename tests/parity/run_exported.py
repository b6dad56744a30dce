"""Runs in the environment of scripts/compare_transformers: loads an exported folder and prints, as JSON, how it differs from a model with
the checkpoint's weights. Arguments: the folder, a JSON file with `weights` (name: [shape, values]) and `rows` of token ids, and where they are needed
`dtype` of the folder (else fp32) and `adapter`, a folder that peft lays over it."""

import json
import sys

import torch
import transformers


def logits_of(model: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=rows[:, :-1], use_cache=False).logits


def main() -> None:
    torch.set_num_threads(1)
    folder, expected = sys.argv[1:]
    with open(expected) as file:
        content = json.load(file)
    rows = torch.tensor(content["rows"])
    loaded, info = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype="auto", output_loading_info=True)
    dtype = loaded.dtype
    by_hand = transformers.AutoModelForCausalLM.from_config(loaded.config, attn_implementation="eager", dtype=dtype)
    with torch.no_grad():
        for name, parameter in by_hand.named_parameters():
            shape, values = content["weights"][name]
            parameter.copy_(torch.tensor(values, dtype=torch.float64).view(shape))
    expected = logits_of(by_hand, rows)
    found = {"scale": expected.abs().max().item()}
    if "adapter" in content:
        import peft  # of those alone who ask for it
        found["base"] = (logits_of(loaded, rows) - expected).abs().max().item()
        loaded = peft.PeftModel.from_pretrained(loaded, content["adapter"])
    logits = logits_of(loaded, rows)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
    odd = [str(name) for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs") for name in info[kind]]
    if str(dtype) != content.get("dtype", "torch.float32"):
        odd.append(str(dtype))
    print(json.dumps({**found, "logits": (logits - expected).abs().max().item(), "loss": loss.item(), "odd": odd}))


if __name__ == "__main__":
    main()
