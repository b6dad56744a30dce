"""Lab: runs the trainer, `shardscope` and PyTorch programs with a time limit, keeps their runs, asks their traces."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

# A model small enough that a step takes milliseconds.
SMALL = ("model.layers=4", "model.dim=264", "model.heads=3", "model.seq=64", "train.batch=4", "train.warmup_steps=2")
CUDA = ("run.device=cuda",)
CUPTI_OFF = {"SHARDSCOPE_CUPTI": "off"}


class Skip(Exception):
    """This check cannot be made here, for a reason that is no fault of what is checked."""


class Failure(Exception):
    """A program failed: the reason is the end of what it said."""


class Places:
    """Where programs are: in a packed folder, or in a build of the source tree."""

    def __init__(self, binaries, programs, extra_libraries=None):
        self.binaries = pathlib.Path(binaries)
        self.programs = [pathlib.Path(folder) for folder in programs]
        self.extra_libraries = extra_libraries

    def program(self, name):
        return next(folder / name for folder in self.programs if (folder / name).exists())


class Lab:
    def __init__(self, places, torch, folder, gpu, budget_s):
        self.places, self.torch, self.gpu = places, torch, gpu
        self.folder = pathlib.Path(folder)
        self.deadline = time.monotonic() + budget_s
        self.runs = {}
        self.data = self.folder / "data.txt"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write_data()

    def _write_data(self):
        words = ["shard", "unit", "gather", "scatter", "stream", "event", "kernel", "trace", "step", "rank", "the", "of", "and"]
        choose = random.Random(7)
        self.data.write_text(" ".join(choose.choice(words) for _ in range(800_000)))

    def left_s(self):
        return self.deadline - time.monotonic()

    def environment(self, more=None, with_torch=True):
        """LD_LIBRARY_PATH is for our programs: a Python finds its own libraries."""
        folders = [self.places.extra_libraries] if self.places.extra_libraries else []
        if with_torch:
            folders += self.torch.library_path()
        path = ":".join([*map(str, folders), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
        return {**os.environ, **({"LD_LIBRARY_PATH": path} if path else {}), **(more or {})}

    def run_program(self, command, environment=None, limit_s=150):
        """Its standard output; a program that fails, or takes too long, fails the check."""
        limit_s = min(limit_s, self.left_s())
        if limit_s <= 1:
            raise Failure("no time was left for it")
        name = pathlib.Path(str(command[0])).name
        # A group of its own: what it started in turn must not keep the GPU when it is ended.
        with subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=environment or self.environment(), start_new_session=True) as process:
            try:
                out, errors = process.communicate(timeout=limit_s)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise Failure(f"{name} took longer than {limit_s:.0f} s") from None
                raise
        if process.returncode != 0:
            raise Failure(f"{name} ended with {process.returncode}: {(errors.strip() or out.strip())[-500:]}")
        return out

    def once(self, name, make):
        """What several checks need is made once; an error is the error of each."""
        if name not in self.runs:
            try:
                self.runs[name] = (make(), None)
            except (Skip, Failure) as error:
                self.runs[name] = (None, error)
        value, error = self.runs[name]
        if error is not None:
            raise error
        return value

    def train_command(self, run, *settings, extra=()):
        return [self.places.binaries / "shardscope-train", "--out", run, *extra, "--set", f"data.path={self.data}", *settings]

    def train(self, name, *settings, extra=(), environment=None, limit_s=150):
        """The folder of a run that ended well. A name is run once."""

        def make():
            run = self.folder / name
            self.run_program(self.train_command(run, *settings, extra=extra), self.environment(environment), limit_s)
            return run

        return self.once(name, make)

    def losses(self, name, *settings, environment=None):
        """Lines `step loss norm` of a training, every digit."""
        path = self.folder / f"{name}.losses"
        self.train(name, *settings, extra=("--losses", path), environment=environment)
        return path.read_text().splitlines()

    def sql(self, run, query):
        text = self.run_program([self.places.binaries / "shardscope", "sql", run, query, "--json"])
        return json.loads(text)

    def report(self, run):
        return json.loads(self.run_program([self.places.binaries / "shardscope", "report", run, "--json"]))

    def python(self):
        if self.torch.python is None:
            raise Skip("LIBTORCH names libraries without a Python that has them: PyTorch's side cannot run")
        return self.torch.python

    def pytorch(self, program, *arguments, prefix=(), environment=None, limit_s=150):
        """Output of a program of programs/ under PyTorch, one rank; `prefix` is put before its command."""
        path = ":".join(map(str, self.places.programs))
        variables = {"PYTHONPATH": path, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1",
                     "MASTER_PORT": "29531", **(environment or {})}
        command = [*prefix, self.python(), self.places.program(program), *arguments]
        return self.run_program(command, self.environment(variables, with_torch=False), limit_s)

    def tool(self, name):
        """A program of the CUDA toolkit; Skip if it is not there."""
        found = shutil.which(name) or next((path for path in ("/usr/local/cuda/bin/" + name,) if os.path.exists(path)), None)
        if found is None:
            raise Skip(f"{name} is not on this machine")
        return found
