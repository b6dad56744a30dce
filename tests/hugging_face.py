"""Folders in Hugging Face's layout without any of its packages, and a checkpoint read by what docs/checkpoints.md says of its files."""

import json
import math
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "parity"))
import llama_cases  # noqa: E402  (needs the path above)

FORMATS = {"F32": ("f", 4), "F64": ("d", 8)}


def tensor_shapes(config):
    """(name, shape) of the parameters of transformers' LlamaForCausalLM and its like, in the order of its state dict."""
    dim, ffn, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    head = config.get("head_dim", dim // heads)
    keys = config["num_key_value_heads"] * head
    yield "model.embed_tokens.weight", [config["vocab_size"], dim]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        for name, rows in (("q", heads * head), ("k", keys), ("v", keys)):
            yield f"{at}self_attn.{name}_proj.weight", [rows, dim]
            if config["model_type"] == "qwen2":
                yield f"{at}self_attn.{name}_proj.bias", [rows]
        yield f"{at}self_attn.o_proj.weight", [dim, heads * head]
        yield f"{at}mlp.gate_proj.weight", [ffn, dim]
        yield f"{at}mlp.up_proj.weight", [ffn, dim]
        yield f"{at}mlp.down_proj.weight", [dim, ffn]
        yield f"{at}input_layernorm.weight", [dim]
        yield f"{at}post_attention_layernorm.weight", [dim]
    yield "model.norm.weight", [dim]
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", [config["vocab_size"], dim]


def write_folder(folder, config):
    """As save_pretrained() leaves it, with the weights of llama_cases."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, shape in tensor_shapes(config):
        values = llama_cases.weights(name, shape)
        begin = len(data)
        data += struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return folder


def nearest_bf16(value):
    """The bits of it, ties to even."""
    bits, = struct.unpack("<I", struct.pack("<f", value))
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


def read_safetensors(path):
    """(name: (dtype, shape, bytes), metadata)."""
    data = path.read_bytes()
    length, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], data[8 + length:][slice(*entry["data_offsets"])]) for name, entry in header.items()}, metadata


def read_folder(folder):
    """All tensors of a folder, by its index if it has one."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return read_safetensors(folder / "model.safetensors")[0]
    places = json.loads(index.read_text())["weight_map"]
    files = {name: read_safetensors(folder / name)[0] for name in sorted(set(places.values()))}
    return {tensor: files[name][tensor] for tensor, name in places.items()}


def our_name(name):
    """Of transformers' parameter `name`: what the trainer calls it."""
    fixed = {"model.embed_tokens.weight": "embedding.weight", "model.norm.weight": "head.norm.weight", "lm_head.weight": "head.weight"}
    if name in fixed:
        return fixed[name]
    _, _, layer, part, *rest = name.split(".")
    if part.endswith("layernorm"):
        return f"block{layer}.{'attention' if part.startswith('input') else 'mlp'}.norm.{rest[0]}"
    return f"block{layer}.{'attention' if part == 'self_attn' else 'mlp'}.{rest[0].removesuffix('_proj')}.{rest[1]}"


def read_checkpoint(folder, kind_of_tensor="parameter"):
    """name: (shape, values), of the weights or of what the optimizer keeps of them."""
    index = json.loads((folder / "index.json").read_text())
    result = {}
    for entry in index["parameters"]:
        tensor, = [one for one in entry["tensors"] if one["name"] == kind_of_tensor]
        kind, size = FORMATS[tensor["dtype"]]
        values = [math.nan] * math.prod(entry["shape"])
        for part in tensor["parts"]:
            data, at = (folder / index["files"][part["file"]]["name"]).read_bytes(), part["offset"]
            for run in part["runs"]:
                first, count, stride, times = (list(run) + [0, 1])[:4]
                for piece in range(times):
                    begin = first + piece * stride
                    values[begin:begin + count] = struct.unpack_from(f"<{count}{kind}", data, at)
                    at += count * size
        result[entry["name"]] = (entry["shape"], values)
    return result
