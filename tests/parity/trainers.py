"""The trainer of each of PyTorch's strategies."""

import pipelines
import tensor_parallel
from model import ByteGpt
from strategies import Trainer


def shares_samples(strategy: str) -> bool:
    """Whether all ranks work on the same samples: stages, and ranks that share the work of layers."""
    return strategy in pipelines.SCHEDULES or strategy == "tensor"


def trainer_of(model: ByteGpt, strategy: str, learning_rate: float) -> Trainer | pipelines.PipelineTrainer:
    kind = Trainer
    if strategy in pipelines.SCHEDULES:
        kind = pipelines.PipelineTrainer
    elif strategy in tensor_parallel.STRATEGIES:
        kind = tensor_parallel.TensorTrainer
    return kind(model, strategy, learning_rate)
