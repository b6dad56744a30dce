"""One rank of transformers' Llama under FSDP2 for the speed table: for each line `STEPS` on stdin runs so many steps and answers with
one JSON line.

Arguments: the model's config.json as text, seq, batch, dtype (fp32 or bf16), and then checkpointing or offload. Ends when stdin does.
"""

import json
import sys
import time

import torch
import transformers
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

from ranks import run
from speed import cpu_ns, peak_resident_bytes


def make_model(config: dict, dtype: str, options: list[str]) -> torch.nn.Module:
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**config), dtype=torch.float32)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if dtype == "bf16" else MixedPrecisionPolicy()
    if "checkpointing" in options:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    offload = CPUOffloadPolicy(pin_memory=False) if "offload" in options else OffloadPolicy()
    for layer in model.model.layers:
        fully_shard(layer, mp_policy=policy, offload_policy=offload)
    fully_shard(model, mp_policy=policy, offload_policy=offload)
    return model.train()  # checkpointing is for that alone


def serve(rank: int, _: int) -> None:
    config, seq, batch, dtype = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    torch.manual_seed(0)
    model = make_model(config, dtype, sys.argv[5:])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.01, fused=True)
    torch.manual_seed(1 + rank)
    print(json.dumps({"ready": dtype}), flush=True)
    for line in sys.stdin:
        cpu_start_ns, steps_ns = cpu_ns(), []
        for _ in range(int(line)):
            rows = torch.randint(0, 256, (batch, seq + 1))
            start_ns = time.monotonic_ns()
            logits = model(input_ids=rows[:, :-1], use_cache=False).logits.float()
            torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            steps_ns.append(time.monotonic_ns() - start_ns)
        print(json.dumps({"steps_ns": steps_ns, "cpu_ns": cpu_ns() - cpu_start_ns, "peak_bytes": peak_resident_bytes()}), flush=True)


if __name__ == "__main__":
    run(serve)
