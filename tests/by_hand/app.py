"""The app in a window on a Desktop: what it shows, from its draw log, and where to put the mouse."""

import dataclasses
import json
import os
import pathlib
import subprocess

from by_hand.desktop import wait_for
from by_hand.drop import Source


@dataclasses.dataclass(frozen=True)
class Item:
    """Something that the app drew."""
    panel: str
    id: str
    text: str
    value: object
    box: tuple

    @property
    def middle(self):
        x0, y0, x1, y1 = self.box
        return round((x0 + x1) / 2), round((y0 + y1) / 2)


class Shown:
    """What one frame showed."""

    def __init__(self, drawn):
        self.frame, self.run, self.theme, self.language = drawn["frame"], drawn["name"], drawn["theme"], drawn["language"]
        self.size = (drawn["width"], drawn["height"])
        self.scale, self.view = drawn["scale"], drawn["view"]
        self.items = [Item(i["panel"], i["id"], i["text"], i.get("value"), tuple(i["box"])) for i in drawn["items"]]

    def all(self, panel, prefix=""):
        return [item for item in self.items if item.panel == panel and item.id.startswith(prefix)]

    def find(self, panel, id):
        return next((item for item in self.items if item.panel == panel and item.id == id), None)

    def texts(self, panel):
        return [item.text for item in self.all(panel, "text")]

    def text(self, panel, id):
        item = self.find(panel, id)
        return item.text if item else None

    @property
    def span_ns(self):
        return self.view["end_ns"] - self.view["start_ns"]


class App:
    """`shardscope open` in a window, ended with the context."""

    def __init__(self, desktop, program, folder, run=None, frame_ms=0, stderr=None):
        self.desktop = desktop
        self.log = pathlib.Path(folder) / "drawn.json"
        self.log.unlink(missing_ok=True)
        command = [str(program), "open", *([str(run)] if run else []), "--draw-log", str(self.log), "--frame-time", f"{frame_ms}ms"]
        self.process = subprocess.Popen(command, cwd=folder, env=dict(desktop.environment, XDG_CONFIG_HOME=str(folder)),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL if stderr else None, stderr=stderr)
        self.window = self.wait("window", lambda: desktop.find_window("Shardscope"))
        self.wait("frame", self.log.exists)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def wait(self, what, condition, patience_s=60):
        def look():
            if self.process.poll() is not None:
                raise AssertionError(f"the app ended with {self.process.returncode} before {what}")
            return condition()
        return wait_for(what, look, patience_s)

    def shown(self):
        return Shown(json.loads(self.log.read_text()))

    def until(self, what, condition, patience_s=60):
        """What is shown once `condition` holds of it."""
        def look():
            shown = self.shown()
            return shown if condition(shown) else None
        return self.wait(what, look, patience_s)

    def item(self, panel, id):
        return self.until(f"{panel} {id}", lambda shown: shown.find(panel, id)).find(panel, id)

    # The mouse, in the window's pixels; windows without a window manager stand at the screen's corner.

    def move(self, place):
        self.desktop.do("mousemove", *(place.middle if isinstance(place, Item) else place))

    def click(self, place, button=1):
        self.move(place)
        self.desktop.do("click", button)

    def drag(self, start, end):
        self.move(start)
        self.desktop.do("mousedown", 1)
        for share in (0.25, 0.5, 0.75, 1):
            self.move((round(start[0] + share * (end[0] - start[0])), round(start[1] + share * (end[1] - start[1]))))
            self.desktop.do("sleep", 0.05)
        self.desktop.do("mouseup", 1)

    def drop(self, path, place):
        """A file or folder, dragged here from elsewhere."""
        with Source(self.desktop, [path]) as source:
            source.drop(self.window, place.middle if isinstance(place, Item) else place)

    def resize(self, width, height):
        self.desktop.do("windowsize", self.window, width, height)

    def key(self, *keys):
        self.desktop.do("key", *keys)

    def type(self, text):
        self.desktop.do("type", "--delay", 20, json.dumps(text))

    def close(self):
        """The cross of the title bar; returns the exit code."""
        self.desktop.close_window(self.window)
        return self.process.wait(timeout=60)


def busy_loops(count=2):
    """Processes that only use up cores; kill them."""
    return [subprocess.Popen(["sh", "-c", "while :; do :; done"], preexec_fn=lambda: os.nice(0)) for _ in range(count)]
