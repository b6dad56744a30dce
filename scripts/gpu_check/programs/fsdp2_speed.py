"""PyTorch FSDP2 in bf16 over the trainer's model: LAYERS DIM HEADS SEQ BATCH STEPS; prints the seconds of every step as JSON."""

import json
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from model import ByteGpt

layers, dim, heads, seq, batch, steps = map(int, sys.argv[1:])
torch.manual_seed(0)
torch.cuda.set_device(0)
dist.init_process_group("nccl")
with torch.device("cuda"):
    model = ByteGpt(layers, dim, heads, seq)
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for block in model.blocks():
    # The tables of angles are plain attributes, which policies do not touch.
    block.attention.cosine = block.attention.cosine.to("cuda", torch.bfloat16)
    block.attention.sine = block.attention.sine.to("cuda", torch.bfloat16)
    fully_shard(block, mp_policy=policy)
fully_shard(model.embedding, mp_policy=policy)
fully_shard(model.head, mp_policy=policy)
fully_shard(model, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.01, fused=True)
seconds = []
for _ in range(steps):
    samples = torch.randint(0, 256, (batch, seq + 1), device="cuda")
    torch.cuda.synchronize()
    began = time.perf_counter()
    loss = model(samples)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    loss.item()
    torch.cuda.synchronize()
    seconds.append(time.perf_counter() - began)
dist.destroy_process_group()
print(json.dumps({"steps_s": seconds}))
