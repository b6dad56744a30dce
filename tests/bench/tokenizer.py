#!/usr/bin/env python3
"""Encoding and decoding 1 MiB of mixed text on one core, beside the package `tokenizers` (scripts/compare_tokenizers --setup)"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tokenizer"))
import compare  # noqa: E402  (needs the path above)
import material  # noqa: E402

THEIRS = """
import json, sys, time
from tokenizers import Tokenizer
text, texts = open(sys.argv[1] + "/tokenizer.json").read(), json.load(open(sys.argv[2]))
encode, decode = [], []
for _ in range(int(sys.argv[3])):
    tokenizer = Tokenizer.from_str(text)  # with an empty cache, as ours
    start = time.perf_counter()
    ids = [tokenizer.encode(text).ids for text in texts]
    encode.append(time.perf_counter() - start)
    start = time.perf_counter()
    [tokenizer.decode(one) for one in ids]
    decode.append(time.perf_counter() - start)
print(json.dumps({"encode": encode, "decode": decode}))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default="build/release")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    rounds, times = (2, 1) if options.quick else (6, 2)
    environment = {**os.environ, "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    kinds = material.kinds(material.train(compare.NUM_MERGES))
    print("| kind | what | `tokenizers` MB/s | here MB/s | ratio | |\n|---|---|---|---|---|---|")
    missed = False
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        texts = material.texts()
        size = sum(len(text.encode("utf-8")) for text in texts)
        (folder / "texts.json").write_text(json.dumps(texts))
        for name in ("gpt2", "llama3", "qwen2"):
            material.write_folder(folder / name, kinds[name])
            commands = {"theirs": [compare.python(), "-c", THEIRS, folder / name, folder / "texts.json", times],
                        "ours": [options.build / "bin" / "tokenize", folder / name, "time", folder / "texts.json", times]}
            seconds = {side: {"encode": [], "decode": []} for side in commands}
            for _ in range(rounds):  # one after the other, so that what else the machine does meets both
                for side, command in commands.items():
                    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True, env=environment)
                    for what, values in json.loads(done.stdout).items():
                        seconds[side][what] += values
            for what in ("encode", "decode"):
                theirs, ours = (size / 1e6 / statistics.median(seconds[side][what]) for side in ("theirs", "ours"))
                missed = missed or ours < theirs
                print(f"| {name} | {what} | {theirs:.1f} | {ours:.1f} | {ours / theirs:.1f} | {'MISS' if ours < theirs else 'PASS'} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
