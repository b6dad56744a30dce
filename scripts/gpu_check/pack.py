"""The packed folder: programs, their libraries but for the machine's own, a manifest; and what is brought back from a run."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess

MAX_BYTES = 60 << 20
MAX_FILES_BACK = 8
MAX_FILE_BACK_BYTES = 16 << 20

PROGRAMS = ("shardscope", "shardscope-train", "libshardscope_inject.so", "libshardscope_torch.so", "libshardscope_cuda.so")
PYTHON = pathlib.Path("python") / "sitecustomize.py"  # has Python load libshardscope_torch.so
# What every machine with Linux and PyTorch has: the C and C++ libraries, LibTorch and NVIDIA's.
SYSTEM = re.compile(r"(ld-linux|lib(c|m|dl|rt|pthread|util|gcc_s|stdc\+\+|torch.*|c10.*|gomp|cu[a-z]+|nv[a-zA-Z]+|nccl))[.\-_]")


class PackError(Exception):
    """One line for the user."""


def libraries_of(program):
    """Those that the linker finds for it and that the other machine may lack."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True).stdout
    return {pathlib.Path(path) for path in re.findall(r"=> (/\S+)", listed) if not SYSTEM.match(pathlib.Path(path).name)}


def strip(path):
    # Names of functions are for debuggers only; without the tool the file stays as it is.
    if shutil.which("strip"):
        subprocess.run(["strip", "--strip-unneeded", str(path)], check=False, capture_output=True)


def commit_of(root):
    done = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def files_of(folder):
    return sorted(path for path in pathlib.Path(folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make(folder, binaries, root, may_lack_cuda=False):
    """Packs `binaries` (a build's bin folder) of the source tree `root`; returns the bytes of the folder."""
    folder, binaries = pathlib.Path(folder), pathlib.Path(binaries)
    if folder.exists() and any(folder.iterdir()):
        raise PackError(f"{folder} is not empty: name a new folder")
    missing = [name for name in PROGRAMS if not (binaries / name).exists()]
    if may_lack_cuda:
        missing = [name for name in missing if name != "libshardscope_cuda.so"]
    if missing:
        raise PackError(f"{binaries} has no {', '.join(missing)}: build it first (scripts/build), with the GPU plugin")
    for sub in ("bin", "lib", "programs"):
        (folder / sub).mkdir(parents=True, exist_ok=True)
    libraries = set()
    for name in PROGRAMS:
        if (binaries / name).exists():
            shutil.copy(binaries / name, folder / "bin" / name)
            libraries |= libraries_of(binaries / name)
            strip(folder / "bin" / name)
    (folder / "bin" / PYTHON).parent.mkdir()
    shutil.copy(binaries / PYTHON, folder / "bin" / PYTHON)
    for library in libraries:
        shutil.copy(library.resolve(), folder / "lib" / library.name)
    here = pathlib.Path(__file__).resolve().parent
    shutil.copytree(here, folder / "gpu_check", ignore=shutil.ignore_patterns("__pycache__", "programs"))
    for program in [*sorted((here / "programs").glob("*.py")), root / "tests" / "parity" / "model.py"]:
        shutil.copy(program, folder / "programs" / program.name)
    shutil.copy(root / "scripts" / "gpu-check", folder / "gpu-check")
    manifest = {"commit": commit_of(root),
                "files": {path.relative_to(folder).as_posix(): digest(path) for path in files_of(folder)}}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    size = sum(path.stat().st_size for path in files_of(folder))
    if size > MAX_BYTES:
        raise PackError(f"{folder} has {size} bytes, more than {MAX_BYTES}: leave something out")
    return size


def verify(folder):
    """The manifest of a packed folder; PackError if a file is missing or damaged on the way."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["commit"], manifest["files"].items()
    except (ValueError, KeyError, TypeError, AttributeError):
        raise PackError(f"{folder / 'manifest.json'} is damaged: pack again and copy the whole folder") from None
    for name, wanted in manifest["files"].items():
        path = folder / name
        if not path.exists() or digest(path) != wanted:
            raise PackError(f"{path} is {'damaged' if path.exists() else 'missing'}: pack again and copy the whole folder")
    for name in PROGRAMS:
        if (folder / "bin" / name).exists() and not os.access(folder / "bin" / name, os.X_OK):
            (folder / "bin" / name).chmod(0o755)  # some ways of copying lose it
    return manifest


def bring_back(work, out):
    """Copies what is worth keeping into `out`: the base run's raw CUPTI buffers, a few small traces. Returns (names, left out)."""
    wanted = [*sorted(work.glob("cupti-*.buffers"), key=lambda path: -path.stat().st_size)[:2]]
    for run in ("base", "injected", "emulated-20GB-s", "nccl", "prefetch-on"):
        wanted += sorted((work / run).glob("trace-*.db"))[:1]
    names, left_out = [], []
    for path in wanted:
        name = path.name if path.parent == work else f"{path.parent.name}.db"
        if path.stat().st_size > MAX_FILE_BACK_BYTES:
            left_out.append(f"{name} ({path.stat().st_size} bytes)")
        elif len(names) == MAX_FILES_BACK - 1:  # one is the JSON
            left_out.append(f"{name} (more than {MAX_FILES_BACK} files)")
        else:
            shutil.copy(path, out / name)
            names.append(name)
    return names, left_out
