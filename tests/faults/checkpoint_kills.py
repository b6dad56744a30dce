#!/usr/bin/env python3
"""Kill -9 at random moments of a trainer that writes a checkpoint before every step.

    tests/faults/checkpoint_kills.py [--build DIR] [--moments 50] [--seed N] [--jobs N]     prints Markdown

After each kill whatever has the name of a checkpoint must have all its files, in full length. A run must go on from the newest, and
must leave no half written one; and from the few before it: who goes on reads all weights and all state, with their checksums.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1])]
import programs  # noqa: E402

PATIENCE_S = 120
READ_BEFORE = 2  # how many beside the newest are read, too


def require(condition, what):
    if not condition:
        raise AssertionError(what)


def step_of(path):
    return int(path.name.removeprefix("step-"))


def train(binary, *arguments):
    return [str(part) for part in (binary, *arguments)]


def kill_moment(binary, index, seed):
    rng = random.Random(f"{seed} {index} checkpoints")
    facts = collections.Counter()
    root = pathlib.Path(tempfile.mkdtemp(prefix="shardscope kill "))
    run, data = root / "run", root / "data.txt"
    data.write_text("the quick brown fox jumps over the lazy dog. " * 200)
    keep = f"checkpoint.keep={rng.choice((0, 1, 3))}"  # old ones are removed meanwhile
    command = train(binary, "--ranks", 2, "--out", run, "--set", f"data.path={data}", *programs.TINY, "train.steps=100000", "checkpoint.every=1", keep)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    folder = run / "checkpoints"
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not list(folder.glob("step-*[0-9]")):
            require(process.poll() is None and time.monotonic() < deadline, "no checkpoint was written")
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.5))
        process.kill()
        process.wait()
        whole = sorted((path for path in folder.iterdir() if not path.name.endswith(".partial")), key=step_of)
        facts["partial"] += any(path.name.endswith(".partial") for path in folder.iterdir())
        facts["whole"] += len(whole)
        require(whole, "the checkpoint is gone")
        for path in whole:
            index = json.loads((path / "index.json").read_text())
            require(index["step"] == step_of(path), f"{path.name} is of step {index['step']}")
            for file in index["files"]:
                require((path / file["name"]).stat().st_size == file["bytes"], f"{path.name}: {file['name']}")
        # The run is found by its newest, each other one by its name.
        for path in reversed(whole[-1 - READ_BEFORE:]):
            step, out = step_of(path), root / f"from {path.name}"
            done = subprocess.run(train(binary, "--resume", run if path == whole[-1] else path, "--out", out, "--set", f"train.steps={step + 1}"),
                                  capture_output=True, text=True, timeout=PATIENCE_S)
            require(done.returncode == 0, done.stderr)
            require(f"step-{step} with step {step}" in done.stdout, done.stdout)
            require(not list(folder.glob("*.partial")), "half written checkpoints are left")
            require((out / "checkpoints" / f"step-{step + 1}" / "index.json").exists(), "the next run left no checkpoint")
            facts["read"] += 1
        return facts
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        shutil.rmtree(root, ignore_errors=True)


def attack(binaries, moments, seed, jobs):
    """(facts, failures) of so many kills."""
    facts, failures = collections.Counter(), []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(kill_moment, binaries / "shardscope-train", index, seed) for index in range(moments)]
        for index, future in enumerate(futures):
            try:
                facts.update(future.result())
                facts["moments"] += 1
            except Exception as error:  # each moment counts for itself
                failures.append(f"moment {index}: {error}")
    return facts, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=programs.ROOT / "build" / "release")
    parser.add_argument("--moments", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="5 moments")
    options = parser.parse_args()
    moments = 5 if options.quick else options.moments
    facts, failures = attack(options.build / "bin", moments, options.seed, options.jobs)
    print("| killed | moments | one was half written | whole ones left | wrong |\n|---|---|---|---|---|")
    print(f"| trainer that writes a checkpoint before every step | {moments} | {facts['partial']} | {facts['whole']} | {len(failures)} |")
    for failure in failures:
        print(f"WRONG {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
