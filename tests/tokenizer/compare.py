"""scripts/compare_tokenizers: what the packages `tokenizers` and `transformers` say of the material, recorded or compared with live."""

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import material

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("SHARDSCOPE_BIN", ROOT / "build" / "release" / "bin"))
RECORDED = pathlib.Path(__file__).resolve().parent / "recorded.json"
PACKAGES = ["tokenizers==0.22.1", "transformers==4.57.1", "jinja2==3.1.6"]
NUM_MERGES = 800
CHUNK = 4096  # ids whose hash is recorded as one


def environment():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "shardscope" / "tokenizers"


def python():
    path = environment() / "bin" / "python"
    if not path.exists():
        sys.exit("compare_tokenizers: the packages are not there: run scripts/compare_tokenizers --setup (0.1 GB)")
    return path


def hashes(lists):
    """Of every 4096 ids of all lists in a row; an empty list between any two would not be seen, so each ends in -1."""
    flat = [number for ids in lists for number in [*ids, -1]]
    return [hashlib.sha256(",".join(map(str, flat[i:i + CHUNK])).encode()).hexdigest()[:16] for i in range(0, len(flat), CHUNK)]


def text_hash(texts):
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]


def broken(ids):
    """Ids of which every third is left out: characters are cut in the middle."""
    return [number for i, number in enumerate(ids) if i % 3 != 1]


def summary(kinds, encode, decode, texts):
    """What is recorded of each kind. encode(kind, texts): lists of ids; decode(kind, lists): texts without and with special tokens."""
    result = {}
    for kind in kinds:
        ids = encode(kind, texts)
        explicit = encode(kind, material.EXPLICIT)
        cut = [broken(list_of) for list_of in [*ids, *explicit]]
        plain, whole = decode(kind, [*ids, *explicit])
        cut_plain, cut_whole = decode(kind, cut)
        result[kind] = {"ids": sum(map(len, ids)), "hashes": hashes(ids), "explicit": [e if len(e) < 40 else hashes([e]) for e in explicit],
                        "decoded": text_hash(plain), "decoded_special": text_hash(whole), "cut": text_hash(cut_plain),
                        "cut_special": text_hash(cut_whole)}
    return result


def theirs(given=None):
    """Of the material's tokenizers, or of the one in the folder `given`."""
    from tokenizers import Tokenizer
    if given is not None:
        kinds = {given.name: Tokenizer.from_file(str(given / "tokenizer.json"))}
    else:
        kinds = {name: Tokenizer.from_str(json.dumps(kind)) for name, kind in material.kinds(material.train(NUM_MERGES)).items()}

    def decode(kind, lists):
        return tuple([kinds[kind].decode(ids, skip_special_tokens=skip) for ids in lists] for skip in (True, False))

    return summary(kinds, lambda kind, texts: [kinds[kind].encode(text).ids for text in texts], decode, material.texts())


def ours(given=None):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        folders = {given.name: given} if given is not None else {}
        for name, kind in material.kinds(material.train(NUM_MERGES)).items() if given is None else ():
            folders[name] = folder / name
            material.write_folder(folders[name], kind)

        def run(kind, what, value):
            (folder / "input.json").write_text(json.dumps(value))
            command = [str(BIN / "tokenize"), str(folders[kind]), what, str(folder / "input.json")]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"{folders[kind]}: {done.stderr.strip()}")
            return json.loads(done.stdout)

        return summary(folders, lambda kind, texts: run(kind, "encode", texts), lambda kind, lists: run(kind, "decode", lists), material.texts())


def differences(left, right):
    return [f"{kind}: {what}" for kind in left for what in left[kind] if left[kind][what] != right.get(kind, {}).get(what)]


def setup():
    if (environment() / "ready").exists():
        return
    subprocess.run([sys.executable, "-m", "venv", str(environment())], check=True)
    subprocess.run([str(environment() / "bin" / "pip"), "install", "--quiet", *PACKAGES], check=True)
    (environment() / "ready").write_text("\n".join(PACKAGES))


def main():
    parser = argparse.ArgumentParser(prog="scripts/compare_tokenizers", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--setup", action="store_true", help="make the packages' environment; nothing else needs it")
    action.add_argument("--record", action="store_true", help="write tests/tokenizer/recorded.json anew")
    action.add_argument("--live", action="store_true", help="compare with the packages now")
    action.add_argument("--theirs", action="store_true", help=argparse.SUPPRESS)  # inside the environment
    parser.add_argument("folder", nargs="?", type=pathlib.Path, metavar="FOLDER", help="with --live: the tokenizer.json there, not those of the tests")
    options = parser.parse_args()
    if options.folder is not None and not (options.live or options.theirs):
        parser.error("FOLDER goes with --live")
    given = options.folder and options.folder.resolve()
    if options.setup:
        setup()
        return 0
    if options.theirs:
        if given is not None:
            print(json.dumps({"tokenizers": theirs(given)}))
            return 0
        import chat_cases
        print(json.dumps({"tokenizers": theirs(), "chat": chat_cases.theirs(), "masks": chat_cases.masks()}))
        return 0
    answer = subprocess.run([str(python()), "-B", __file__, "--theirs", *([str(given)] if given else [])], capture_output=True, text=True)
    if answer.returncode != 0:
        sys.exit(answer.stderr)
    recorded = {"packages": PACKAGES, **json.loads(answer.stdout)}
    if options.record:
        RECORDED.write_text(json.dumps(recorded, indent=0) + "\n")
        return 0
    try:
        wrong = differences(recorded["tokenizers"], ours(given))
    except RuntimeError as error:
        sys.exit(f"compare_tokenizers: {error}")
    for kind, numbers in recorded["tokenizers"].items():
        print(f"{kind}: {numbers['ids']} ids of 1 MiB of text")
    print("\n".join(f"MISS: {what}" for what in wrong) or "all equal")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
