"""scripts/compare_transformers: sets up transformers, records its figures, or says how far they are from the recorded ones."""

import argparse
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import environment
import llama_cases
import number_cases

sys.path.insert(0, str(environment.ROOT / "tests"))
import hugging_face  # noqa: E402  (needs the path above)

BIN = pathlib.Path(os.environ.get("SHARDSCOPE_BIN", environment.ROOT / "build" / "release" / "bin"))


def in_transformers(script: str, *arguments) -> dict:
    """What a script of this folder prints in transformers' environment."""
    done = subprocess.run([str(part) for part in (environment.transformers_python(), script, *arguments)],
                          cwd=environment.ROOT / "tests" / "parity", capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{script} failed on {arguments[0]}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def run(case: llama_cases.Case, *vocabulary: int) -> dict:
    """Transformers' own figures; with another size of the vocabulary where one is given."""
    return in_transformers("run_transformers.py", case.name, *vocabulary)


def settings() -> dict:
    """What the test has to train with."""
    return {"steps": llama_cases.STEPS, "ranks": llama_cases.RANKS, "batch": llama_cases.BATCH, "seq": llama_cases.SEQ,
            "learning_rate": llama_cases.LEARNING_RATE, "warmup_steps": llama_cases.WARM_UP_STEPS,
            "tolerance": llama_cases.TOLERANCE, "scaler": llama_cases.SCALER}


def record() -> None:
    llama_cases.FOLDER.mkdir(exist_ok=True)
    for case in llama_cases.CASES:
        content = {"config": case.config, "settings": settings(), **run(case)}
        logits = content.pop("logits")
        width = case.config["vocab_size"]
        lines = [" " + ", ".join(map(repr, logits[at:at + width])) for at in range(0, len(logits), width)]
        text = json.dumps(content, indent=1)[:-2] + ',\n "logits": [\n' + ",\n".join(lines) + "\n ]\n}\n"
        case.path.write_text(text)
        print(f"{case.path.relative_to(environment.ROOT)}: losses {', '.join(f'{loss:.6f}' for loss in content['losses']['fp32'])}")


SAMPLES = llama_cases.RANKS * llama_cases.BATCH  # all of them in each step: their order does not matter
LORA_RANK, LORA_ALPHA = 4, 8
LORA = (f"lora.rank={LORA_RANK}", f"lora.alpha={LORA_ALPHA}", "lora.targets=all", "train.lr=0.02")


def largest_difference(ours: list[float], theirs: list[float]) -> float:
    scale = max(abs(value) for value in theirs)
    return max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) / scale


def live() -> bool:
    """Whether transformers still says what is recorded, which the tests compare the engine with."""
    agree = True
    print("| model | logits | losses fp32 | losses bf16 | losses fp16 |\n|---|---|---|---|---|")
    for case in llama_cases.CASES:
        recorded = json.loads(case.path.read_text())
        now = run(case)
        found = {"logits": largest_difference(now["logits"], recorded["logits"])}
        found |= {name: largest_difference(now["losses"][name], recorded["losses"][name]) for name in llama_cases.TOLERANCE}
        agree = agree and now["skipped"] == recorded["skipped"]
        agree = agree and all(found[name] <= llama_cases.TOLERANCE.get(name, llama_cases.TOLERANCE["fp32"]) for name in found)
        print(f"| {case.name} | {found['logits']:.1e} | {found['fp32']:.1e} | {found['bf16']:.1e} | {found['fp16']:.1e} |", flush=True)
    return agree


def train(*arguments) -> None:
    done = subprocess.run([str(part) for part in (BIN / "shardscope-train", *arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"shardscope-train failed:\n{done.stderr[-2000:]}")


def train_from_folder(config: dict, root: pathlib.Path, *settings: str, rows: list[list[int]] | None = None,
                      ranks: int = llama_cases.RANKS) -> list[list[int]]:
    """A folder with this config.json is written, and trained from in `root / "run"`. The samples, which are `rows` where these are given."""
    folder = hugging_face.write_folder(root / "from", config)
    rows = rows or [[llama_cases.mixed_bits(3, row * (llama_cases.SEQ + 1) + at) % 128 for at in range(llama_cases.SEQ + 1)] for row in range(SAMPLES)]
    (root / "data").write_bytes(bytes(token for row in rows for token in row))
    train("--ranks", ranks, "--out", root / "run", "--set", f"model.path={folder}", f"data.path={root / 'data'}",
          f"model.seq={llama_cases.SEQ}", f"train.batch={llama_cases.BATCH}", f"train.steps={llama_cases.STEPS}", "checkpoint.every=1000", *settings,
          "--losses", root / "run.losses")
    return rows


# What the trainer is given beside transformers' losses in each dtype.
PRECISIONS = {"fp32": (), "bf16": ("precision.param=bf16", "precision.reduce=fp32"),
              "fp16": ("precision.param=fp16", "precision.reduce=fp32", *number_cases.SCALER)}
BYTES = 256


def live_trained() -> bool:
    """Whether the trainer, from a folder of each kind, has transformers' losses now, and skips the steps that it skips."""
    agree = True
    print("\n| trained on 2 ranks, `preset=fsdp2` | fp32 | bf16 | fp16 |\n|---|---|---|---|")
    for case in llama_cases.CASES:
        theirs, apart = run(case, BYTES), {}
        for name, settings in PRECISIONS.items():
            with tempfile.TemporaryDirectory() as folder:
                root = pathlib.Path(folder)
                train_from_folder({**case.config, "vocab_size": BYTES}, root, "preset=fsdp2", f"train.lr={llama_cases.LEARNING_RATE}",
                                  f"train.warmup_steps={llama_cases.WARM_UP_STEPS}", *settings, rows=llama_cases.tokens(BYTES))
                lines = [[float(number) for number in line.split()] for line in (root / "run.losses").read_text().splitlines()]
            apart[name] = max(abs(ours[1] - loss) / loss for ours, loss in zip(lines, theirs["losses"][name], strict=True))
            skipped = [step for step, ours in enumerate(lines) if not math.isfinite(ours[2])]
            agree = agree and apart[name] <= llama_cases.TOLERANCE[name] and skipped == theirs["skipped"][name]
        print(f"| {case.name} | {apart['fp32']:.1e} | {apart['bf16']:.1e} | {apart['fp16']:.1e} |", flush=True)
    return agree


def exported(case: llama_cases.Case, root: pathlib.Path) -> dict:
    """A folder that is trained from and exported, as transformers loads it, beside the checkpoint: the largest difference of logits, what was
    missing or too much, and transformers' loss beside that of the step which goes on from the checkpoint."""
    config = {**case.config, "vocab_size": 256}  # a token is a byte
    rows = train_from_folder(config, root)
    train("export", "--checkpoint", root / "run", "--out", root / "exported")
    train("--resume", root / "run", "--out", root / "on", "--losses", root / "losses", "--set", f"train.steps={llama_cases.STEPS + 1}")
    weights = hugging_face.read_checkpoint(root / "run" / "checkpoints" / f"step-{llama_cases.STEPS}")
    named = {name: weights[hugging_face.our_name(name)] for name, _ in hugging_face.tensor_shapes(config)}
    (root / "expected.json").write_text(json.dumps({"weights": named, "rows": rows}))
    theirs = in_transformers("run_exported.py", root / "exported", root / "expected.json")
    ours = float((root / "losses").read_text().split()[1])
    return {**theirs, "loss": abs(theirs["loss"] - ours) / ours}


def live_exported() -> bool:
    """Whether transformers loads what is exported, with equal logits."""
    agree = True
    print("\n| exported | logits | loss | missing or too many |\n|---|---|---|---|")
    for case in llama_cases.CASES:
        with tempfile.TemporaryDirectory() as folder:
            found = exported(case, pathlib.Path(folder))
        agree = agree and found["logits"] == 0 and found["loss"] <= llama_cases.TOLERANCE["fp32"] and not found["odd"]
        print(f"| {case.name} | {found['logits']:.1e} | {found['loss']:.1e} | {', '.join(found['odd']) or 'none'} |", flush=True)
    return agree


def merged(folder: pathlib.Path, checkpoint: pathlib.Path) -> dict:
    """Name: (shape, values) of every weight of transformers' model, W + alpha/rank B A where it has adapters."""
    weights = hugging_face.read_checkpoint(checkpoint)
    result = {}
    for name, (_, shape, data) in hugging_face.read_folder(folder).items():
        values = list(struct.unpack(f"<{len(data) // 4}f", data))
        ours = hugging_face.our_name(name)
        if (name_of_a := ours.replace(".weight", ".lora_A.weight")) in weights:
            a, b = weights[name_of_a][1], weights[ours.replace(".weight", ".lora_B.weight")][1]
            columns = shape[1]
            for at in range(len(values)):
                row, column = divmod(at, columns)
                values[at] += sum(b[row * LORA_RANK + r] * a[r * columns + column] for r in range(LORA_RANK)) * LORA_ALPHA / LORA_RANK
        result[name] = (shape, values)
    return result


def loaded(root: pathlib.Path, folder: pathlib.Path, content: dict) -> dict:
    """What run_exported.py finds in a folder, beside that content."""
    (root / "expected.json").write_text(json.dumps(content))
    return in_transformers("run_exported.py", folder, root / "expected.json")


def exported_with_adapters(root: pathlib.Path) -> list[tuple[str, dict, float]]:
    """Adapters that 4 ranks train in bf16 with recomputation and offload, gone on with at 2 ranks by another strategy and exported in each way: its
    name, what run_exported.py finds, and how far its logits may be from those of W + alpha/rank B A, relative to the largest."""
    case = next(case for case in llama_cases.CASES if case.name == "grouped")
    rows = train_from_folder({**case.config, "vocab_size": 256}, root, *LORA, "precision.param=bf16", "checkpointing=full", "offload=all",
                             f"train.batch={SAMPLES // 4}", ranks=4)
    steps = llama_cases.STEPS + 3
    train("--resume", root / "run", "--ranks", 2, "--out", root / "on", "--set", "strategy=zero2", f"train.batch={SAMPLES // 2}", f"train.steps={steps}")
    weights = merged(root / "from", root / "on" / "checkpoints" / f"step-{steps}")
    for out, options in (("whole", ()), ("narrow", ("--dtype", "bf16", "--file-bytes", "20kB")), ("adapter", ("--adapter",))):
        train("export", "--checkpoint", root / "on", "--out", root / out, *options)
    if len(list((root / "narrow").glob("model-*.safetensors"))) < 2:
        raise RuntimeError(f"{root / 'narrow'}: --file-bytes made no second file")
    # In bf16 the nearest of what is in fp32, bit for bit: the sum itself may be rounded differently before.
    in_fp32 = {name: (shape, struct.unpack(f"<{len(data) // 4}f", data)) for name, (_, shape, data) in hugging_face.read_folder(root / "whole").items()}
    tolerance = llama_cases.TOLERANCE["fp32"]
    return [("merged", loaded(root, root / "whole", {"weights": weights, "rows": rows}), tolerance),
            ("merged, bf16, several files", loaded(root, root / "narrow", {"weights": in_fp32, "rows": rows, "dtype": "torch.bfloat16"}), 0),
            ("peft over its base", loaded(root, root / "from", {"weights": weights, "rows": rows, "adapter": str(root / "adapter")}), tolerance)]


def live_adapters() -> bool:
    """Whether transformers and peft load what is exported of a training of adapters."""
    agree = True
    print("\n| exported adapters | logits | without them | missing or too many |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, found, tolerance in exported_with_adapters(pathlib.Path(folder)):
            apart = found["logits"] / found["scale"]
            # Without adapters the model says something else, or nothing would be compared.
            base = found["base"] / found["scale"] if "base" in found else None
            agree = agree and apart <= tolerance and not found["odd"] and (base is None or base > 100 * tolerance)
            print(f"| {name} | {apart:.1e} | {'' if base is None else f'{base:.1e}'} | {', '.join(found['odd']) or 'none'} |", flush=True)
    return agree


def imported(name: str, style: str, root: pathlib.Path) -> float:
    """How far what is imported of a folder that PyTorch wrote (write_dcp.py) is from what PyTorch trained: weights, moments, step."""
    expected = in_transformers("write_dcp.py", name, style, root / "dcp")
    config = next(case for case in llama_cases.CASES if case.name == name).config
    folder = hugging_face.write_folder(root / "from", config)
    train("import", "--dcp", root / "dcp", "--out", root / "imported", "--set", f"model.path={folder}")
    apart = float(json.loads((root / "imported" / "index.json").read_text())["step"] != 2)
    for tensor, parameters in expected.items():
        found = hugging_face.read_checkpoint(root / "imported", tensor)
        if {hugging_face.our_name(one) for one in parameters} != set(found):
            raise RuntimeError(f"{name}, {style}: the parameters of {tensor} are {', '.join(sorted(found))}")
        for parameter, values in parameters.items():
            apart = max(apart, *(abs(a - b) for a, b in zip(found[hugging_face.our_name(parameter)][1], values, strict=True)))
    return apart


def live_imported() -> bool:
    """Whether what PyTorch saves, with transformers' names and with torchtitan's, is imported bit for bit."""
    agree = True
    print("\n| imported from torch.distributed.checkpoint | names | largest difference |\n|---|---|---|")
    for name, style in (("grouped", "transformers"), ("tied", "transformers"), ("grouped", "torchtitan"), ("llama3_scaling", "torchtitan"),
                        ("grouped", "newer"), ("llama3_scaling", "newer")):
        with tempfile.TemporaryDirectory() as folder:
            apart = imported(name, style, pathlib.Path(folder))
        agree = agree and apart == 0
        print(f"| {name} | {style} | {apart:.1e} |", flush=True)
    return agree


def main() -> int:
    parser = argparse.ArgumentParser(prog="compare_transformers", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--setup", action="store_true", help="fetch PyTorch and transformers (0.6 GB, once)")
    action.add_argument("--record", action="store_true", help="write tests/parity/transformers/*.json anew")
    action.add_argument("--live", action="store_true", help="compare transformers with what is recorded and with the trainer, let it load what is "
                                                           "exported, and import what PyTorch saves")
    options = parser.parse_args()
    try:
        if options.setup:
            environment.make()
            environment.add_transformers()
        elif options.record:
            record()
        else:
            agree = live()
            agree = live_trained() and agree
            agree = live_exported() and agree
            agree = live_imported() and agree
            return 0 if live_adapters() and agree else 1
    except (environment.SetupError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
