#!/usr/bin/env python3
"""Makes what docs/strategies.md shows of each strategy: --schedules (between its markers) and --pictures (docs/strategies/*.png).

A picture is the middle (Timeline, Memory) of a `shardscope shot` of a short training; of its steps it shows the three that took least, as other
programs of the machine disturb others. Programs: build/release/bin, or where SHARDSCOPE_BIN says.
"""

import argparse
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = pathlib.Path(os.environ.get("SHARDSCOPE_BIN", ROOT / "build" / "release" / "bin"))
DOCS = ROOT / "docs" / "strategies.md"
PICTURES = ROOT / "docs" / "strategies"
STEPS = 16
WIDTH, HEIGHT = 1500, 720
# Of the window: the columns of Timeline and Memory, without the bar at the top.
LEFT, RIGHT, TOP, BOTTOM = 311, WIDTH - 339, 50, HEIGHT - 6
LINK = ("transport=emulated", "link.bandwidth=150MB/s")

# Name of the section: settings of the picture's training, and its ranks.
TRAININGS = {
    "single": ("strategy=single", 1),
    "data_parallel": ("strategy=data_parallel", 2),
    "ddp": ("strategy=ddp ddp.bucket_cap=4MB", 2),
    "no_shard": ("strategy=no_shard", 2),
    "zero1": ("strategy=zero1 zero.reduce_bucket_size=1000000", 2),
    "zero2": ("strategy=zero2 zero.reduce_bucket_size=1000000", 2),
    "grad_op": ("strategy=grad_op", 2),
    "full": ("strategy=full", 2),
    "double_buffer": ("strategy=full preset=double_buffer", 2),
    "zero3": ("strategy=zero3", 2),
    "hybrid": ("strategy=hybrid mesh.shard=2 mesh.replicate=2", 4),
    "hybrid_grad_op": ("strategy=hybrid_grad_op mesh.shard=2 mesh.replicate=2", 4),
    "tensor": ("strategy=tensor", 2),
    "sequence": ("strategy=tensor tensor.sequence_parallel=true", 2),
    "async": ("strategy=tensor tensor.async=true", 2),
    "model_parallel": ("strategy=model_parallel train.micro_batches=4", 2),
    "gpipe": ("strategy=pipeline pipeline.schedule=gpipe train.micro_batches=4", 2),
    "1f1b": ("strategy=pipeline train.micro_batches=4", 2),
    "interleaved": ("strategy=pipeline pipeline.schedule=interleaved pipeline.chunks=2 train.micro_batches=4", 2),
}
COLLECTIVES = {"all_gather": "AG", "reduce_scatter": "RS", "all_reduce": "AR", "broadcast": "BC", "reduce": "R"}
COMPUTE = {"forward": "F", "norm_forward": "N", "backward": "B", "weight_backward": "W", "norm_backward": "N", "recompute": "R"}


def plan(name):
    """The Schedule of a training of one step, with three blocks; with four, for stages to have two each."""
    settings, ranks = TRAININGS[name]
    layers = 4 if "micro_batches" in settings else 3
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        train(run, ranks, "train.steps=1", f"model.layers={layers}", "model.seq=8", "train.batch=1", *settings.split())
        schedule, = (run / "schedules").iterdir()
        return schedule.read_text()


def short(name):
    """Of a unit or segment: e(mbedding), h(ead), p(ersistent), or the number of a block or bucket."""
    number = re.match(r"(?:block|bucket)(\d+)", name)
    return number.group(1) if number else name[0]


def tokens(name):
    """Each program's ops in the order in which its host issues them, shortened."""
    text = plan(name)
    gathers_after_update = "all_gather phase=optimizer" in text
    units = [short(unit) for unit in re.findall(r'^unit \d+ "(\S+)"', text, re.M)]
    segments = [(short(segment), int(stage or 0)) for segment, stage in re.findall(r'^segment \d+ "(\S+)"[^#\n]*?(?: stage=(\d+))?(?= *#|$)', text, re.M)]
    of_stages = "receive_activation" in text
    for program in re.split(r"^program \d+$", text, flags=re.M)[1:]:
        order = []
        for line in re.findall(r"^  op \d+ (.*)$", program, re.M):
            kind, fields = line.split()[0], dict(re.findall(r"(\w+)=(\S+)", line.split("#")[0]))
            if kind in COMPUTE:
                segment, stage = segments[int(fields["segment"])]
                chunk = "" if "interleaved" not in name else "ab"[stage // 2]
                token = COMPUTE[kind] + (fields["mb"] + chunk if of_stages else segment)
            elif kind in COLLECTIVES and "unit" in fields:
                token = COLLECTIVES[kind] + units[int(fields["unit"])]
            elif kind in ("all_reduce", "all_gather", "reduce_scatter") and "segment" in fields:
                token = COLLECTIVES[kind]
            elif kind in ("scatter", "gather"):
                token = kind
            elif kind == "optimizer":
                token = "O" + units[int(fields["unit"])] if gathers_after_update else "O"
            elif kind == "grad_norm":
                token = "norm"
            else:
                continue
            if not order or order[-1] != token:
                order.append(token)
        yield " ".join(order)


def schedule(name):
    lines = list(tokens(name))
    return "\n".join(lines if len(lines) == 1 else (f"rank {rank}: {line}" for rank, line in enumerate(lines)))


def write_schedules(text):
    """The text of docs/strategies.md with each schedule between its markers."""
    for name in TRAININGS:
        marker = f"<!-- schedule: {name} -->\n"
        head, rest = text.split(marker)
        text = head + marker + "```\n" + schedule(name) + "\n```\n" + rest.split("```\n", 2)[2]
    return text


def train(run, ranks, *settings):
    subprocess.run([BIN / "shardscope-train", "--ranks", str(ranks), "--out", run, "--set", f"data.path={ROOT / 'engine'}", *settings], check=True,
                   stdout=subprocess.DEVNULL)


def png_lines(path):
    """The lines of an 8-bit RGBA picture that is not interlaced."""
    data, packed, at = path.read_bytes(), b"", 8
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"IHDR":
            width, height, *format_ = struct.unpack_from(">IIBBBBB", data, at + 8)
            assert format_ == [8, 6, 0, 0, 0], "not a picture of shardscope shot"
        elif kind == b"IDAT":
            packed += data[at + 8:at + 8 + size]
        at += size + 12
    raw, stride, above = zlib.decompress(packed), 4 * width, bytes(4 * width)
    for y in range(height):
        start = y * (stride + 1)
        above = unfilter(raw[start], bytearray(raw[start + 1:start + 1 + stride]), above)
        yield above


def unfilter(kind, line, above):
    """PNG specification, section 9."""
    for x in range(len(line)) if kind else ():
        left, up, corner = line[x - 4] if x >= 4 else 0, above[x], above[x - 4] if x >= 4 else 0
        if kind == 4:
            distances = [abs(left + up - corner - other) for other in (left, up, corner)]
            line[x] = (line[x] + (left, up, corner)[distances.index(min(distances))]) & 255
        else:
            line[x] = (line[x] + (0, left, up, (left + up) // 2)[kind]) & 255
    return line


def crop(source, target):
    """Writes the middle of a picture without transparency: a third of the bytes."""
    lines = list(png_lines(source))[TOP:BOTTOM]
    packed = b""
    for line in lines:
        pixels = line[4 * LEFT:4 * RIGHT]
        rgb = bytearray(len(pixels) // 4 * 3)
        for channel in range(3):
            rgb[channel::3] = pixels[channel::4]
        packed += b"\0" + rgb

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", RIGHT - LEFT, len(lines), 8, 2, 0, 0, 0)
    target.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(packed, 9)) + chunk(b"IEND", b""))


def calmest_step(run):
    """The middle one of the three steps in a row that took least, without warm-up."""
    report = json.loads(subprocess.run([BIN / "shardscope", "report", run, "--json"], check=True, capture_output=True, text=True).stdout)
    took = {}
    for row in report["steps"]:
        took[row["step"]] = max(row["step_ns"], took.get(row["step"], 0))
    return min(range(3, STEPS - 1), key=lambda step: sum(took[near] for near in (step - 1, step, step + 1)))


def make_picture(name):
    settings, ranks = TRAININGS[name]
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / name
        train(run, ranks, f"train.steps={STEPS}", *LINK, *settings.split())
        whole = pathlib.Path(folder) / "whole.png"
        subprocess.run([BIN / "shardscope", "shot", run, "-o", whole, "--size", f"{WIDTH}x{HEIGHT}", "--step", str(calmest_step(run))], check=True)
        crop(whole, PICTURES / f"{name}.png")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", action="store_true")
    parser.add_argument("--pictures", nargs="*", metavar="NAME", choices=list(TRAININGS), help="these, or all")
    options = parser.parse_args()
    if options.schedules:
        DOCS.write_text(write_schedules(DOCS.read_text()))
    if options.pictures is not None:
        PICTURES.mkdir(exist_ok=True)
        for name in options.pictures or TRAININGS:
            make_picture(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
