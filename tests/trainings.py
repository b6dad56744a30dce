"""How the benchmarks of tests/bench start the trainer: to its end, or in the background with its control socket."""

import contextlib
import pathlib
import sqlite3
import subprocess
import time

from programs import Control, interrupt, is_steerable


def command_of(build, run, ranks, *settings):
    return [str(part) for part in (build / "bin" / "shardscope-train", "--ranks", ranks, "--out", run, "--set", *settings)]


def train(build, run, ranks, *settings):
    """Trains to the end; the run's folder."""
    subprocess.run(command_of(build, run, ranks, *settings), check=True, stdout=subprocess.DEVNULL)
    return run


class Training:
    """A training in the background, three steps after its start; killed if it is not ended."""

    def __init__(self, build, folder, *settings, ranks=2):
        self.run = pathlib.Path(folder) / "run"
        self.process = subprocess.Popen(command_of(build, self.run, ranks, "train.steps=1000000", *settings), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        try:
            self.wait(lambda: is_steerable(self.run))
            self.control = Control(self.run)
            self.wait(lambda: self.step() >= 3)
        except BaseException:
            self.kill()
            raise

    def wait(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise SystemExit("the training did not start")
            time.sleep(0.05)

    def step(self):
        return self.control.ask(get="status")["status"]["step"]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.control.close()
        interrupt(self.process)
        self.process.wait(60)

    def query(self, sql):
        """Of the finished trace."""
        trace, = self.run.glob("trace-*.db")
        with contextlib.closing(sqlite3.connect(f"{trace.as_uri()}?mode=ro", uri=True)) as database:
            return database.execute(sql).fetchall()
