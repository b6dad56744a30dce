"""PyTorch's pipelines over the byte decoder: gpipe, 1f1b, interleaved. Blocks are spread evenly, as the trainer does."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, PipelineScheduleSingle

from model import VOCABULARY, ByteGpt
from strategies import CLIP, adam_w

SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "interleaved": ScheduleInterleaved1F1B}
CHUNKS = 2  # stages on each rank, interleaved


class Layers(nn.Module):
    """The stage `index` of `count`: with the embedding in the first one and the head in the last one."""

    def __init__(self, model: ByteGpt, index: int, count: int) -> None:
        super().__init__()
        each, rest = divmod(model.layers, count)
        assert rest == 0, "layers that do not divide"
        self.parts = nn.ModuleList(([model.embedding] if index == 0 else []) + model.blocks()[index * each:(index + 1) * each]
                                   + ([model.head] if index + 1 == count else []))

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x


def mean_loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class PipelineTrainer:
    """As strategies.Trainer; all ranks work on the same samples, and the last one has the loss."""

    ranks_with_loss = 1

    def __init__(self, model: ByteGpt, strategy: str, learning_rate: float) -> None:
        self.kind = SCHEDULES[strategy]
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.count = self.ranks * (CHUNKS if strategy == "interleaved" else 1)
        self.mine = range(self.rank, self.count, self.ranks)
        self.dim = model.embedding.weight.shape[1]
        self.layers = nn.ModuleList(Layers(model, index, self.count) for index in self.mine)
        self.schedule = None
        self.optimizer = adam_w(self.layers.parameters(), learning_rate)

    def make_schedule(self, micro_batches: int, batch: int, seq: int) -> PipelineScheduleSingle | PipelineScheduleMulti:
        # With shapes, as a stage that has to ask its neighbour for them needs numpy.
        tokens = torch.empty(batch, seq, dtype=torch.int64, device="meta")
        inside = torch.empty(batch, seq, self.dim, device="meta")
        logits = torch.empty(batch, seq, VOCABULARY, device="meta")
        stages = [PipelineStage(layers, index, self.count, torch.device("cpu"), tokens if index == 0 else inside,
                                logits if index + 1 == self.count else inside)
                  for layers, index in zip(self.layers, self.mine)]
        return self.kind(stages if len(stages) > 1 else stages[0], n_microbatches=micro_batches, loss_fn=mean_loss)

    def clip(self) -> Tensor:
        """The norm of the gradient over all stages, before clipping."""
        gradients = [parameter.grad for parameter in self.layers.parameters()]
        square = nn.utils.get_total_norm(gradients).square()
        dist.all_reduce(square)
        nn.utils.clip_grads_with_norm_(self.layers.parameters(), CLIP, square.sqrt())
        return square.sqrt()

    def step(self, micro_batches: list[Tensor]) -> tuple[Tensor, Tensor]:
        """One step; returns the mean loss, which is 0 on all ranks but the last, and the gradient norm."""
        if self.schedule is None:
            batch, length = micro_batches[0].shape
            self.schedule = self.make_schedule(len(micro_batches), batch, length - 1)
        samples = torch.cat(micro_batches)
        losses: list[Tensor] = []
        inputs = (samples[:, :-1].contiguous(),) if self.rank == 0 else ()
        targets = {"target": samples[:, 1:].contiguous(), "losses": losses} if self.rank + 1 == self.ranks else {}
        self.schedule.step(*inputs, **targets, return_outputs=False)
        norm = self.clip()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return torch.stack(losses).mean().detach() if losses else torch.zeros(()), norm
