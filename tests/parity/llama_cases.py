"""Models of the Llama family that transformers and the trainer are compared on: their config.json, and weights and samples
that every language makes alike, from whole numbers."""

import pathlib
from dataclasses import dataclass, field

from number_cases import SCALE

FOLDER = pathlib.Path(__file__).resolve().parent / "transformers"
STEPS = 6
RANKS = 2
BATCH = 2  # samples of a rank
SEQ = 24
LEARNING_RATE = 2e-3
WARM_UP_STEPS = 2
TOLERANCE = {"fp32": 1e-5, "bf16": 2e-2, "fp16": 2e-2}  # relative
# Of fp16's scaler, as the trainer calls them: the first step overflows and is skipped, and the scale grows once.
SCALER = {"init": SCALE["init_scale"], "growth": SCALE["growth_factor"], "backoff": SCALE["backoff_factor"], "interval": SCALE["growth_interval"]}
MASK = (1 << 64) - 1

# Of every case, unless it says otherwise. No size divides among the ranks.
BASE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 36, "intermediate_size": 50, "num_hidden_layers": 2,
        "num_attention_heads": 6, "num_key_value_heads": 6, "vocab_size": 71, "hidden_act": "silu", "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "max_position_embeddings": 64, "tie_word_embeddings": False, "attention_bias": False}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}


@dataclass(frozen=True)
class Case:
    name: str
    differs: dict = field(default_factory=dict)

    @property
    def path(self) -> pathlib.Path:
        """Where transformers' figures are recorded."""
        return FOLDER / f"{self.name}.json"

    @property
    def config(self) -> dict:
        return {**BASE, **self.differs}


CASES = (
    Case("llama"),
    Case("llama3_scaling", {"rope_theta": 500000.0, "rope_scaling": LLAMA3, "num_key_value_heads": 3}),
    Case("grouped", {"num_key_value_heads": 2, "head_dim": 10}),
    Case("tied", {"tie_word_embeddings": True, "num_key_value_heads": 1}),
    Case("qwen2", {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "num_key_value_heads": 2, "rms_norm_eps": 1e-6,
                   "tie_word_embeddings": True, "use_sliding_window": False}),
    Case("mistral", {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "num_key_value_heads": 2, "sliding_window": SEQ}),
)


def mixed_bits(seed: int, index: int) -> int:
    """SplitMix64 as in engine/model/initialize.cc."""
    bits = (seed + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
    return bits ^ (bits >> 31)


def name_hash(name: str) -> int:
    """FNV-1a."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


def weights(name: str, shape: list[int]) -> list[float]:
    """Of transformers' parameter `name`: multiples of 2^-14 between -1/4 and 1/4; of norms, around 1."""
    seed = name_hash(name)
    count = 1
    for size in shape:
        count *= size
    shift = 1.0 if name.endswith("norm.weight") else 0.0
    return [shift + ((mixed_bits(seed, index) >> 51) - 4096) / 16384 for index in range(count)]


def tokens(vocabulary: int) -> list[list[int]]:
    """All samples, which every step learns: RANKS * BATCH rows of SEQ + 1, of text where a token is a byte."""
    width = SEQ + 1
    return [[mixed_bits(7, row * width + at) % min(vocabulary, 128) for at in range(width)] for row in range(RANKS * BATCH)]
