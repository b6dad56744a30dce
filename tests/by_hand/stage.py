"""What an item of the checklist starts from: trainings and traces, the app on one of them, and a picture at the end."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from by_hand.app import App
from by_hand.desktop import wait_for

SIZES = ["model.layers=3", "model.dim=64", "model.heads=2", "model.seq=64", "train.batch=2"]
# A link on which communication is seen: a step takes some 60 ms.
LINK = ["transport=emulated", "link.bandwidth=20MB/s"]
LONG = ["train.steps=1000000"]
FULL_SPEED = ["model.layers=2", "model.dim=32", "model.heads=2", "model.seq=16", "train.batch=1", *LONG]
FINISHED_STEPS = 12
SETTLED_S = 0.5


class Stage:
    """For one item. `folder` is its own, `shared` is of all items; what it starts ends with the context."""

    def __init__(self, desktop, programs, folder, shared, picture=None):
        self.desktop, self.programs, self.picture = desktop, programs, picture
        self.folder, self.shared = pathlib.Path(folder), pathlib.Path(shared)
        self.frame_ms = 0     # a frame takes at least so long
        self.answer_s = 0.5   # how long an answer may take
        self.run = self.trainer = self.app = None
        self.ends = contextlib.ExitStack()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.picture and self.app and is_alive(self.app.process) and not self.picture.exists():
            self.take_picture()
        self.ends.close()

    def take_picture(self):
        """Once what was asked for is drawn to its end: views glide."""
        self.wait(SETTLED_S + self.frame_ms / 1000)
        self.desktop.picture(self.picture)

    def wait(self, seconds):
        """For what must not happen; what must is waited for with App.until()."""
        time.sleep(seconds)

    def train(self, *settings):
        """A training in the background; returns its folder once there is a trace."""
        self.run = self.folder / "run"
        self.trainer = subprocess.Popen(self.command(self.run, settings), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.ends.callback(self.trainer.wait)
        self.ends.callback(self.trainer.kill)
        wait_for("trace", lambda: list(self.run.glob("trace-*.db")))
        return self.run

    def train_at_full_speed(self):
        return self.train(*FULL_SPEED)

    def live(self):
        """The app on a training that goes on for as long as the item takes, some steps of it drawn."""
        app = self.open(self.train(*SIZES, *LINK, *LONG))
        is_connected = lambda shown: not shown.find("run_control", "notice")
        app.until("steps", lambda shown: step(shown) >= 3 and shown.all("timeline", "op_run:") and is_connected(shown))
        return app

    def finished(self):
        """The folder of a finished run, this item's own."""
        made = self.shared / "finished"
        if not made.exists():
            subprocess.run(self.command(made, [*SIZES, *LINK, f"train.steps={FINISHED_STEPS}"]), check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return pathlib.Path(shutil.copytree(made, self.folder / "finished"))

    def open(self, run=None):
        """The app in a window; one at a time."""
        self.app = self.ends.enter_context(App(self.desktop, self.programs / "shardscope", self.folder, run, self.frame_ms))
        return self.app

    def end_training_of(self, run):
        """Of a training that the app started: it would live on."""
        wait_for("trace", lambda: list(run.glob("trace-*.db")))
        pid = int(re.search(r"-(\d+)\.", next(run.glob("trace-*.db")).name).group(1))
        self.ends.callback(os.kill, pid, signal.SIGKILL)

    def command(self, run, settings):
        return [str(word) for word in (self.programs / "shardscope-train", "--ranks", 2, "--out", run, "--set", *settings)]


def step(shown):
    """The newest step that the top bar names; -1 before the first."""
    item = shown.find("top_bar", "step")
    return item.value if item else -1


def state(shown):
    return shown.text("top_bar", "state")


def is_alive(process):
    return process.poll() is None
