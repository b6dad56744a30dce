"""What this machine has: a GPU with its driver, and LibTorch 2.11."""

import ctypes
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

TORCH_VERSION = "2.11"


class MachineError(Exception):
    """One line for the user: what is missing, and the remedy."""


def visible_gpus():
    """How many GPUs a program that is started from here can use (CUDA_VISIBLE_DEVICES may hide some)."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    driver.cuInit(0)
    return count.value if driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


def no_gpu_reason():
    """Why nothing can be checked here; None if there is a GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "libcuda.so.1, NVIDIA's driver, is not there"
    result = driver.cuInit(0)
    if result != 0:
        return f"the driver does not start (cuInit gives {result})"
    count = ctypes.c_int(0)
    if driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "the driver has no device"
    return None


@dataclasses.dataclass
class Gpu:
    name: str
    driver: str
    count: int  # visible ones


def describe_gpu():
    """By nvidia-smi, which comes with the driver; unknown without it."""
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True,
                              text=True, timeout=30)
        lines = [line.rsplit(", ", 1) for line in done.stdout.splitlines() if ", " in line]
    except (OSError, subprocess.TimeoutExpired):
        lines = []
    name, driver = lines[0] if lines else ("unknown", "unknown")
    return Gpu(name, driver, visible_gpus())


@dataclasses.dataclass
class Torch:
    """LibTorch, and the Python that has it as a package (None: only the libraries are there)."""

    version: str
    lib: pathlib.Path
    python: str | None

    def library_path(self):
        """Folders for the dynamic linker: LibTorch, and NVIDIA's packages beside it."""
        packages = self.lib.parent.parent / "nvidia"
        return [self.lib, *sorted(packages.glob("*/lib"))]


def torch_of_python(python):
    """The torch package of one interpreter, without importing it (which takes seconds); None if it has none."""
    script = "import importlib.util as u; s = u.find_spec('torch'); print(s.origin if s else '')"
    try:
        done = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    origin = done.stdout.strip()
    if done.returncode != 0 or not origin:
        return None
    folder = pathlib.Path(origin).parent
    return Torch(version_of(folder / "version.py"), folder / "lib", python)


def version_of(path):
    found = re.search(r"__version__ = ['\"]([^'\"]+)", path.read_text()) if path.exists() else None
    return found.group(1) if found else "unknown"


def torch_of_folder(folder):
    """$LIBTORCH: the unpacked library, the torch package, or its lib folder."""
    folder = pathlib.Path(folder)
    lib = folder if (folder / "libtorch_cpu.so").exists() else folder / "lib"
    version = version_of(lib.parent / "version.py")
    if version == "unknown" and (lib.parent / "build-version").exists():
        version = (lib.parent / "build-version").read_text().strip()
    return Torch(version, lib, None)


def find_torch():
    """LIBTORCH first, then the interpreters on the path. Raises MachineError."""
    pythons = [python for python in dict.fromkeys([shutil.which("python3"), shutil.which("python"), sys.executable]) if python]
    candidates = [found for found in map(torch_of_python, pythons) if found is not None]
    if os.environ.get("LIBTORCH"):
        chosen = torch_of_folder(os.environ["LIBTORCH"])
        # Where it is that of an interpreter, that one can run PyTorch's side too.
        same = [found for found in candidates if found.lib.resolve() == chosen.lib.resolve()]
        candidates = [*same, chosen]
    tried = []
    for torch in candidates:
        if not (torch.lib / "libtorch_cpu.so").exists():
            tried.append(f"{torch.lib} has no libtorch_cpu.so")
        elif not torch.version.startswith(TORCH_VERSION + ".") and (torch.python or torch.version != "unknown"):
            # Of bare libraries that the user named the version may not be known; the linker refuses what does not fit.
            tried.append(f"{torch.lib} has version {torch.version}")
        else:
            return torch
    raise MachineError(f"LibTorch {TORCH_VERSION} is not to be found ({'; '.join(tried) or 'no python3 here has a torch package'}): "
                       "name its folder in LIBTORCH")
