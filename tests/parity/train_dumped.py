"""One PyTorch rank that trains from the weights and batches of a `shardscope-train --dump` file.

Arguments: the dump, strategy, layers, dim, heads, seq, batch, learning rate, warm-up steps, steps. Prints one JSON line: loss
(mean over all ranks that have one) and gradient norm of every step.
"""

import json
import mmap
import sys

import torch
import torch.distributed as dist

from model import ByteGpt, adapt
from number_cases import LORA, LORA_ALPHA, LORA_RANK
from ranks import run
from trainers import trainer_of

DTYPES = {"F32": torch.float32, "F64": torch.float64, "BF16": torch.bfloat16, "I64": torch.int64}


def read_safetensors(path: str) -> dict[str, torch.Tensor]:
    """All tensors of a file: 8 bytes of header length, a JSON header with offsets, the data."""
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    size = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(data, dtype=torch.uint8, offset=8 + size + begin, count=end - begin).clone()
        tensors[name] = flat.view(DTYPES[entry["dtype"]]).view(entry["shape"])
    return tensors


def train(rank: int, _: int) -> None:
    path, strategy = sys.argv[1:3]
    layers, dim, heads, seq, batch = map(int, sys.argv[3:8])
    learning_rate, warm_up, steps = float(sys.argv[8]), int(sys.argv[9]), int(sys.argv[10])
    dump = read_safetensors(path)
    model = ByteGpt(layers, dim, heads, seq)
    if strategy.startswith(LORA):
        model = adapt(model, LORA_RANK, LORA_ALPHA)
        strategy = strategy.removeprefix(LORA)
    model.load_state_dict({name.removeprefix("init."): tensor for name, tensor in dump.items() if name.startswith("init.")})
    trainer = trainer_of(model, strategy, learning_rate)
    numbers: dict[str, list[float]] = {"loss": [], "grad_norm": []}
    for step in range(steps):
        for group in trainer.optimizer.param_groups:
            group["lr"] = learning_rate * min(1.0, (step + 1) / max(1, warm_up))
        samples = dump.get(f"batch.{step}.{rank}", dump[f"batch.{step}.0"])  # stages between others read none
        loss, norm = trainer.step(list(samples.split(batch)))
        mean = loss.double()
        dist.all_reduce(mean)
        numbers["loss"].append(mean.item() / trainer.ranks_with_loss)
        numbers["grad_norm"].append(norm.item())
    print(json.dumps(numbers), flush=True)


if __name__ == "__main__":
    run(train)
