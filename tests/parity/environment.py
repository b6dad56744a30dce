"""The virtual environment with PyTorch 2.11, which re-records parity figures and gives the other side of the speed table.

Nothing of the normal set-up, build or tests needs it. The wheels are pinned in archives.txt and unpacked by
scripts/fetch_archives.py. PyTorch's wheel for Linux is built for CUDA and asks for about 4 GB of CUDA libraries when it is
loaded, though the CPU never calls them; empty stand-ins take their place (see `make_stand_ins`), so the environment is
0.55 GB of downloads.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ARCHIVES = pathlib.Path(__file__).resolve().parent / "archives.txt"
TRANSFORMERS = pathlib.Path(__file__).resolve().parent / "archives_transformers.txt"
PYTHON_VERSION = (3, 11)  # of the pinned wheels

# Libraries of ours or the system that torch's own are linked with; every other one that is missing gets a stand-in.
TORCH_LIBRARIES = ("libtorch_cuda.so", "libtorch_python.so", "libtorch_nvshmem.so")


class SetupError(Exception):
    """One line for the user: what, why, remedy."""


def folder() -> pathlib.Path:
    """Where the environment is, whether or not it is there yet."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "shardscope" / "pytorch"


def site_packages() -> pathlib.Path:
    return folder() / "lib" / "python3.11" / "site-packages"


def python() -> pathlib.Path:
    """The environment's interpreter; raises SetupError if --setup has not run."""
    path = folder() / "bin" / "python"
    if not (folder() / "ready").exists():
        raise SetupError("PyTorch's environment is not there: run scripts/compare_pytorch --setup (0.55 GB)")
    return path


def transformers_python() -> pathlib.Path:
    """The same interpreter, once transformers is there too."""
    if not (folder() / "ready_transformers").exists():
        raise SetupError("transformers is not there: run scripts/compare_transformers --setup (0.6 GB)")
    return python()


def tool_output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SetupError(f"{' '.join(command)} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


def missing_libraries(libraries: list[pathlib.Path]) -> set[str]:
    """Names that the dynamic linker does not find for `libraries`."""
    return set(re.findall(r"^\s*(\S+) => not found", "".join(tool_output("ldd", str(path)) for path in libraries), re.M))


def make_stand_ins(lib: pathlib.Path) -> None:
    """Gives the missing CUDA libraries one stand-in: a library that defines each of their functions, to abort if called.

    The linker wants every name of a library and of a version node at load time, so each is defined; the symbols are those
    that torch's libraries leave undefined and no library that is there defines.
    """
    libraries = [lib / name for name in TORCH_LIBRARIES]
    missing = missing_libraries(libraries)
    if not missing:
        return
    there = [path for path in lib.glob("*.so*") if path.is_file()] + list(site_packages().glob("nvidia/**/lib/*.so*"))
    system = re.findall(r"=> (/\S+)", tool_output("ldd", str(lib / "libtorch_cpu.so")))
    defined = set()
    for path in {str(path) for path in there} | set(system):
        lines = tool_output("nm", "-D", "--defined-only", path).splitlines()
        defined |= {line.split()[-1].split("@")[0] for line in lines if line}
    wanted, versions = set(), {}
    for path in libraries:
        for line in tool_output("nm", "-D", "--undefined-only", str(path)).splitlines():
            kind, symbol = line.split()
            name, _, version = symbol.partition("@")
            if kind != "U" or name in defined:
                continue
            wanted.add(name)
            if version:
                versions[name] = version
    compile_stand_in(lib, missing, wanted, versions)


def compile_stand_in(lib: pathlib.Path, names: set[str], symbols: set[str], versions: dict[str, str]) -> None:
    """One library with all `symbols`, under each of `names`."""
    with tempfile.TemporaryDirectory() as scratch:
        source = pathlib.Path(scratch) / "stand_in.c"
        script = pathlib.Path(scratch) / "stand_in.map"
        source.write_text("".join(f"void {name}(void) {{ __builtin_trap(); }}\n" for name in sorted(symbols)))
        nodes: dict[str, list[str]] = {}
        for name, version in versions.items():
            nodes.setdefault(version, []).append(name)
        script.write_text("".join(f"{node} {{ global: {' '.join(f'{name};' for name in sorted(of))} }};\n"
                                  for node, of in sorted(nodes.items())))
        target = lib / "libshardscope_stand_in.so"
        tool_output("gcc", "-shared", "-fPIC", "-w", f"-Wl,--version-script={script}", "-o", str(target), str(source))
    for name in names:
        link = lib / name
        link.unlink(missing_ok=True)
        link.symlink_to(target.name)


def make() -> None:
    """Makes the environment; does nothing if it is there."""
    if (folder() / "ready").exists() and (folder() / "ready").read_text() == ARCHIVES.read_text():
        return
    if sys.version_info[:2] != PYTHON_VERSION:
        raise SetupError(f"the pinned wheels are for Python 3.11, this is {sys.version.split()[0]}: run it with python3.11")
    # Without pip: the archives are unpacked, not installed, so Debian's python3 alone is enough.
    tool_output(sys.executable, "-m", "venv", "--without-pip", str(folder()))
    fetch(ARCHIVES)
    make_stand_ins(site_packages() / "torch" / "lib")
    version = tool_output(str(folder() / "bin" / "python"), "-c", "import torch; print(torch.__version__)").strip()
    (folder() / "ready").write_text(ARCHIVES.read_text())
    print(f"PyTorch {version} is ready in {folder()}")


def fetch(archives: pathlib.Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "fetch_archives.py"), "--list", str(archives), "--cache", str(folder())]
    if subprocess.run(command).returncode != 0:
        raise SetupError("the archives could not be fetched (above)")


def add_transformers() -> None:
    """Adds transformers to the environment; does nothing if it is there."""
    ready = folder() / "ready_transformers"
    if ready.exists() and ready.read_text() == TRANSFORMERS.read_text():
        return
    fetch(TRANSFORMERS)
    version = tool_output(str(python()), "-c", "import transformers; print(transformers.__version__)").strip()
    ready.write_text(TRANSFORMERS.read_text())
    print(f"transformers {version} is ready in {folder()}")
