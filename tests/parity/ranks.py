"""Ranks as processes: `Ranks` starts them (any Python), `run` is what each does (PyTorch's)."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn

import environment

HERE = pathlib.Path(__file__).resolve().parent


class Ranks:
    """`count` processes of one script of this folder, joined by a file store; each has pipes for lines of text."""

    def __init__(self, script: str, count: int, *arguments: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.processes: list[subprocess.Popen[str]] = []
        for rank in range(count):
            variables = os.environ | {"RANK": str(rank), "WORLD_SIZE": str(count), "OMP_NUM_THREADS": "1",
                                      "STORE": os.path.join(self._folder.name, "store"), "TORCH_CPP_LOG_LEVEL": "ERROR",
                                      "KINETO_LOG_LEVEL": "99"}
            command = [str(environment.python()), "-W", "ignore", str(HERE / script), *arguments]
            self.processes.append(subprocess.Popen(command, env=variables, text=True, stdin=subprocess.PIPE,
                                                   stdout=subprocess.PIPE))

    def send(self, line: str) -> None:
        for process in self.processes:
            process.stdin.write(line + "\n")
            process.stdin.flush()

    def receive(self) -> list[str]:
        """The next line of every rank."""
        lines = [process.stdout.readline() for process in self.processes]
        if not all(lines):
            raise RuntimeError("a PyTorch rank ended early (its error is above)")
        return lines

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in self.processes:
            if kind is not None:
                process.kill()
            process.stdin.close()
        for process in self.processes:
            process.wait()
            process.stdout.close()
        self._folder.cleanup()


def run(body: Callable[[int, int], None]) -> NoReturn:
    """This process as a rank: one thread, gloo. Calls body(rank, world size), then ends the process."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", store=dist.FileStore(os.environ["STORE"], size), rank=rank, world_size=size)
    body(rank, size)
    # No tear-down of the group: Gloo's hangs now and then when ranks reach it at different moments.
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)
