#!/usr/bin/env python3
"""How fast 2 ranks load a folder of Llama weights that this system has in no cache, beside a plain read of the same file, in turn."""
import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from figures import Table  # noqa: E402
from trainings import command_of  # noqa: E402

RANKS, BUDGET = 2, 0.8  # of the plain read's speed
LARGE = {"hidden_size": 1536, "intermediate_size": 4096, "num_hidden_layers": 16, "num_attention_heads": 12, "vocab_size": 32000}
SMALL = {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 32000}
READ_AT_ONCE = 4 << 20
ROWS = {"all of it trained": (), "`lora.rank=8`": ("lora.rank=8",), "`lora.rank=8 precision.param=bf16`": ("lora.rank=8", "precision.param=bf16")}


def shapes_of(model):
    dim, ffn, vocab = model["hidden_size"], model["intermediate_size"], model["vocab_size"]
    shapes = {"model.embed_tokens.weight": [vocab, dim], "model.norm.weight": [dim], "lm_head.weight": [vocab, dim]}
    for layer in range(model["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        shapes |= {prefix + f"self_attn.{name}_proj.weight": [dim, dim] for name in "qkvo"}
        shapes |= {prefix + f"mlp.{name}_proj.weight": [ffn, dim] for name in ("gate", "up")}
        shapes |= {prefix + "mlp.down_proj.weight": [dim, ffn]}
        shapes |= {prefix + f"{name}_layernorm.weight": [dim] for name in ("input", "post_attention")}
    return shapes


def write_folder(folder, model):
    """In Hugging Face's layout, bf16: small random numbers, which repeat."""
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "tie_word_embeddings": False, "max_position_embeddings": 64, **model,
              "num_key_value_heads": model["num_attention_heads"], "rms_norm_eps": 1e-5, "rope_theta": 10000.0}
    (folder / "config.json").write_text(json.dumps(config))
    header, at = {}, 0
    for name, shape in shapes_of(model).items():
        size = 2
        for length in shape:
            size *= length
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    draw = random.Random(1)
    block = b"".join(struct.pack("<f", draw.gauss(0, 0.02))[2:] for _ in range(1 << 16))
    path = folder / "model.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for left in range(at, 0, -len(block)):
            file.write(block[:left])
        os.fsync(file.fileno())
    return path


def forget(path):
    """What the system has of the file in its cache."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def plain_speed(path):
    forget(path)
    begin = time.monotonic()
    with path.open("rb", buffering=0) as file:
        while file.read(READ_AT_ONCE):
            pass
    return path.stat().st_size / (time.monotonic() - begin)


def bytes_from_disk(process):
    for line in pathlib.Path(f"/proc/{process.pid}/io").read_text().splitlines():
        if line.startswith("read_bytes: "):
            return int(line.split()[1])
    raise SystemExit("/proc does not tell what a process reads from disk")


def seconds_of(text):
    number, unit = text.split()
    return float(number) * {"us": 1e-6, "ms": 1e-3, "s": 1}[unit]


def loading_speed(build, model_folder, path, data, run, *settings):
    """By what the run's log says of the time in which all ranks made their memory and filled it; and how long the program takes, with its start and one step."""
    forget(path)
    size = path.stat().st_size
    command = command_of(build, run, RANKS, f"data.path={data}", f"model.path={model_folder}", "data.tokenizer=bytes", "model.seq=16",
                         "train.batch=1", "train.steps=1", *settings)
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    fetched = 0
    try:
        while process.poll() is None:
            with contextlib.suppress(OSError):  # it has ended meanwhile
                fetched = max(fetched, bytes_from_disk(process))
            time.sleep(0.05)
        took = time.monotonic() - started
        if process.returncode != 0:
            raise SystemExit(f"the trainer ended with {process.returncode}")
    finally:
        process.kill()
        process.wait()
    if fetched < size:
        raise SystemExit(f"the trainer fetched {fetched:,} of {size:,} bytes: the system had them in its cache")
    loaded = re.search(r"weights were read in (.*)", (run / "log.txt").read_text())
    return size / seconds_of(loaded[1]), took


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round of a small model: to see that it runs")
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    # Beside the build, which is on a disk; temporary folders may be memory.
    with tempfile.TemporaryDirectory(dir=options.build.resolve()) as name:
        folder = pathlib.Path(name)
        (folder / "model").mkdir()
        data = folder / "data.txt"
        data.write_text("the quick brown fox jumps over the lazy dog. " * 2000)
        path = write_folder(folder / "model", SMALL if options.quick else LARGE)
        # Once for the libraries, which would count as weights.
        subprocess.run([*command_of(options.build.resolve(), folder / "first", RANKS, f"data.path={data}", "train.steps=1")], check=True,
                       stdout=subprocess.DEVNULL)
        plain, loading = [], {name: [] for name in ROWS}
        for number in range(rounds):
            plain.append(plain_speed(path))
            for at, (name, settings) in enumerate(ROWS.items()):
                run = folder / f"run{number}-{at}"
                loading[name].append(loading_speed(options.build.resolve(), folder / "model", path, data, run, *settings))
        size = path.stat().st_size
    table = Table()
    for name, results in loading.items():
        speeds, took = zip(*results)
        ratio = statistics.median(ours / disk for ours, disk in zip(speeds, plain))
        table.add(f"{RANKS} ranks load {size / 1e9:.2f} GB of bf16 weights, {name}",
                  f"{statistics.median(speeds) / 1e6:.0f} MB/s, {ratio:.2f} of a plain read's", f">= {BUDGET}", ratio >= BUDGET)
        table.add(f"The whole command of that, {name}, with its start and a step", f"{statistics.median(took):.1f} s")
    table.add("A plain read of the file, 4 MiB at once", f"{statistics.median(plain) / 1e6:.0f} MB/s")
    print(f"{rounds} round(s), nothing cached, medians.\n")
    table.print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
