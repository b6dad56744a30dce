"""The real window on a training at full speed, with frames of 150 ms: a key, a click, a drag and the cross of the title bar are each
answered within a few frames, whatever rows are pending, also while two busy loops have the cores. `scripts/bench window` has the times.
Of two windows on one training each shows what the other has it do.

usage: live_window_test.py PROGRAMS
"""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))
from by_hand.app import App, busy_loops  # noqa: E402
from by_hand.desktop import Desktop, wait_for  # noqa: E402
from by_hand.stage import state  # noqa: E402

FRAME_MS = 150
# The frame that was being drawn, the one that takes the input in, and its answer where press and release are a frame each.
BOUND_FRAMES = 3
TIMES = 5  # each; what other programs take from the cores delays single ones, so that the median is asked
SETTLED_STEPS = 20
PROGRAMS = None


class LiveWindowTest(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.run_folder = pathlib.Path(self.folder) / "run"
        self.train(self.run_folder)
        self.desktop = self.enterContext(Desktop())

    def train(self, run):
        """Steps of a few milliseconds, for as long as the test takes: rows pour in."""
        sizes = ["model.layers=2", "model.dim=32", "model.heads=2", "model.seq=16", "train.batch=1", "train.steps=1000000"]
        with open(os.devnull, "w") as nowhere:
            trainer = subprocess.Popen([PROGRAMS / "shardscope-train", "--ranks", "2", "--out", run, "--set", *sizes], stdout=nowhere,
                                       stderr=nowhere)
        self.addCleanup(trainer.wait)
        self.addCleanup(trainer.kill)
        wait_for("trace", lambda: list(run.glob("trace-*.live.db")))

    def enterContext(self, manager):
        self.addCleanup(manager.__exit__, None, None, None)
        return manager.__enter__()

    @staticmethod
    def step(shown):
        item = shown.find("top_bar", "step")
        return item.value if item else -1

    @staticmethod
    def answer(app, act, is_answered):
        """Frames from the one that was shown at the act to the first that shows what it did."""
        before = app.shown().frame
        act()
        return app.until("answer", is_answered).frame - before

    def press_key(self, app):
        theme = app.shown().theme
        return self.answer(app, lambda: app.key("ctrl+t"), lambda shown: shown.theme != theme)

    def click(self, app):
        """The toggle of following."""
        place, follow = app.item("timeline", "follow"), app.shown().view["follow"]
        app.move(place)
        return self.answer(app, lambda: app.click(place), lambda shown: shown.view["follow"] != follow)

    def drag(self, app):
        """The timeline, which follows until it is held."""
        if not app.shown().view["follow"]:
            app.key("End")
            app.until("following", lambda shown: shown.view["follow"])
        x, y = app.item("timeline", "rank:0").middle
        app.move((x + 500, y + 40))
        app.desktop.do("mousedown", 1)
        app.desktop.do("mousemove", x + 520, y + 40)
        held = app.until("hold", lambda shown: not shown.view["follow"]).view["start_ns"]
        taken = self.answer(app, lambda: app.move((x + 700, y + 40)), lambda shown: shown.view["start_ns"] < held)
        app.desktop.do("mouseup", 1)
        return taken

    def close(self, app):
        before = app.shown().frame
        self.assertEqual(app.close(), 0)
        return app.shown().frame - before

    def ask_for_all(self):
        taken = {"key": [], "click": [], "drag": [], "close": []}
        with App(self.desktop, PROGRAMS / "shardscope", self.folder, self.run_folder, FRAME_MS) as app:
            app.until("steps", lambda shown: self.step(shown) >= SETTLED_STEPS)
            for _ in range(TIMES):
                before = self.step(app.shown())
                taken["key"].append(self.press_key(app))
                taken["click"].append(self.click(app))
                taken["drag"].append(self.drag(app))
                app.until("rows that came meanwhile", lambda shown: self.step(shown) > before)
            taken["close"].append(self.close(app))
        print(taken)
        for what, frames in taken.items():
            self.assertLessEqual(statistics.median(frames), BOUND_FRAMES, f"{what}: {taken}")

    def test_two_apps_on_one_run_show_what_the_other_did(self):
        other = self.enterContext(Desktop())
        folder = self.enterContext(tempfile.TemporaryDirectory())
        program = PROGRAMS / "shardscope"
        with App(self.desktop, program, self.folder, self.run_folder) as first, App(other, program, folder, self.run_folder) as second:
            for app in (first, second):
                app.until("steps of a run that is steered", lambda shown: self.step(shown) >= SETTLED_STEPS and state(shown) == "LIVE"
                          and not shown.find("run_control", "notice"))
            for actor, word in ((first, "PAUSED"), (second, "LIVE"), (second, "PAUSED"), (first, "LIVE")):
                actor.key("space")
                for app in (first, second):
                    app.until(word, lambda shown, word=word: state(shown) == word)
            # One is closed: the other goes on.
            self.assertEqual(first.close(), 0)
            at = self.step(second.shown())
            second.until("more steps", lambda shown: self.step(shown) > at)

    def test_slow_frames(self):
        self.ask_for_all()

    def test_slow_frames_beside_two_busy_loops(self):
        for loop in busy_loops():
            self.addCleanup(loop.wait)
            self.addCleanup(loop.kill)
        self.ask_for_all()


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
