"""A small PyTorch FSDP2 training on one GPU, as a user would write it: nothing here knows of Shardscope."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

torch.manual_seed(0)
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
layers = [nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(4)]
model = nn.Sequential(*layers).cuda()
for layer in layers:
    fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for step in range(5):
    loss = model(torch.randn(64, 512, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {loss.item():.6f}")
dist.destroy_process_group()
