"""A finished run: looking around in it."""

from by_hand.items_live import lanes, widest_span
from by_hand.stage import state, step


def open_a_finished_run(stage):
    """Open it: FINISHED, its timeline in front, the knobs say why they cannot be turned."""
    app = opened(stage)
    shown = app.shown()
    assert state(shown) == "FINISHED" and step(shown) >= 0
    assert shown.text("run_control", "notice")


def opened(stage):
    app = stage.open(stage.finished())
    app.until("its spans", lambda shown: shown.all("timeline", "op_run:") and shown.find("overlap", "rank"))
    return app


def zoom(stage):
    """Wheel at a span: it grows under the mouse; Ctrl makes it finer; Backspace goes back."""
    app = opened(stage)
    before = app.shown()
    app.move(lanes(before))
    app.desktop.do("click", 4)
    nearer = app.until("a nearer view", lambda shown: shown.span_ns < 0.9 * before.span_ns)
    stage.wait(0.6)
    nearer = app.shown()
    app.desktop.do("keydown", "ctrl", "click", 4, "keyup", "ctrl")
    finer = app.until("a finer step", lambda shown: shown.span_ns < nearer.span_ns)
    stage.wait(0.6)
    assert app.shown().span_ns > 0.9 * nearer.span_ns, "Ctrl made it no finer"
    app.key("BackSpace")
    app.until("the view before", lambda shown: shown.span_ns > finer.span_ns)


def pan(stage):
    """Drag, then the keys A and D: the view moves there and back."""
    app = opened(stage)
    start = app.shown().view["start_ns"]
    x, y = lanes(app.shown())
    app.drag((x, y), (x + 200, y))
    app.until("an earlier view", lambda shown: shown.view["start_ns"] < start)
    stage.wait(0.5)
    left = app.shown().view["start_ns"]
    app.key("d")
    app.until("a later view", lambda shown: shown.view["start_ns"] > left)


def select_an_op(stage):
    """Click a span of rank 1: Details tell of it, with times and a sentence of what it means."""
    app = opened(stage)
    app.click(widest_span(app.shown(), rank=1))
    shown = app.until("its details", lambda shown: "rank 1" in (shown.text("details", "step") or ""))
    assert shown.text("details", "meaning")


def fit_a_span(stage):
    """Double click a span: it fills the view; F fits the selection."""
    app = opened(stage)
    before = app.shown()
    app.move(widest_span(before))
    app.desktop.do("click", "--repeat", 2, "--delay", 60, 1)
    app.until("a nearer view", lambda shown: shown.span_ns < before.span_ns)


def tooltips(stage):
    """Rest on a span, a stall in the list, a number and a knob: each has a tooltip inside the window."""
    app = opened(stage)
    shown = app.shown()
    places = [("timeline", widest_span(shown)), ("top_bar", shown.find("top_bar", "step_ns_p50")),
              ("run_control", shown.find("run_control", "knob:prefetch.backward"))]
    for panel, place in places:
        app.move((3, shown.size[1] - 3))
        app.until("no tooltip", lambda shown: not any(i.id == "tooltip" for i in shown.items))
        app.move(place)
        shown = app.until(f"a tooltip of {panel}", lambda shown: any(i.id == "tooltip" for i in shown.items))
        box = next(i.box for i in shown.items if i.id == "tooltip")
        assert box[0] >= 0 and box[1] >= 0 and box[2] <= shown.size[0] and box[3] <= shown.size[1], f"{panel}: cut"


def memory(stage):
    """Rest on the memory of a rank: a tooltip says bytes and what is live."""
    app = opened(stage)
    x, y = app.item("memory", "rank:0").middle
    app.move((x + 400, y + 40))
    app.until("bytes", lambda shown: any("MB" in i.text or "kB" in i.text for i in shown.all("memory", "tooltip")))


def jump_in_the_minimap(stage):
    """Click the minimap's beginning: the first steps are in view."""
    app = opened(stage)
    x0, y0, x1, y1 = app.item("timeline", "minimap").box
    app.click((round(x0 + 8), round((y0 + y1) / 2)))
    app.until("step 0", lambda shown: any(i.value == 0 for i in shown.all("timeline", "step:")))


def whole_run(stage):
    """Home: the whole run is in view; End of a finished run loses nothing."""
    app = opened(stage)
    before = app.shown()
    app.key("Home")
    app.until("all of it", lambda shown: shown.span_ns > before.span_ns)
    app.key("End")
    stage.wait(0.5)
    assert app.shown().all("timeline"), "the timeline is blank"


def measure_a_stretch(stage):
    """Drag in the ruler: how long that is stands in it, and in Details how its time divides; an edge is moved, F fits it, Esc takes it away."""
    app = opened(stage)
    x0, _, x1, y1 = app.item("timeline", "minimap").box
    at = lambda share: (round(x0 + share * (x1 - x0)), round(y1 + 14))
    length = lambda shown: shown.find("timeline", "area").value if shown.find("timeline", "area") else 0
    app.drag(at(0.3), at(0.5))
    stage.wait(0.3)
    shown = app.until("its figures", lambda shown: shown.find("details", "area_name:0") and not shown.find("details", "area_state"))
    assert shown.find("details", "area_length").value == length(shown) > 0
    app.drag(at(0.5), at(0.7))
    longer = app.until("a longer one", lambda now: length(now) > 1.5 * length(shown))
    before = None
    while before != length(longer):  # the rest of the drag, where frames take long
        before = length(longer)
        stage.wait(0.6)
        longer = app.shown()
    app.key("f")
    fitted = app.until("it in the whole view", lambda now: now.span_ns < 2 * length(now))
    assert length(fitted) == length(longer)
    app.until("its figures", lambda now: now.find("details", "area_length") and now.find("details", "area_length").value == length(now))
    stage.take_picture()
    app.key("Escape")
    app.until("none", lambda now: not now.find("timeline", "area") and not now.find("details", "area_length"))


def along_spans(stage):
    """An op is selected: . and , lead to the next of its name and back, [ to what it waited for, Alt with an arrow to views before."""
    app = opened(stage)
    app.click(widest_span(app.shown(), rank=0))
    stage.wait(0.5)
    first = app.shown()
    place = lambda shown: (shown.text("details", "title"), shown.find("details", "step").value) if shown.find("details", "step") else None
    app.key("comma")
    before = app.until("the one before", lambda shown: place(shown) and place(shown) != place(first))
    assert place(before)[0] == place(first)[0]
    app.key("period")
    app.until("the first again", lambda shown: place(shown) == place(first))
    app.key("bracketleft")
    app.until("what it waited for", lambda shown: place(shown) and place(shown)[0] != place(first)[0])
    app.key("0")
    app.until("most of the run", lambda shown: shown.span_ns > 2 * first.span_ns)
    stage.wait(0.5)
    whole = app.shown()
    app.key("alt+Left")
    app.until("the view before", lambda shown: shown.span_ns < 0.7 * whole.span_ns)
    app.key("alt+Right")
    app.until("the whole run", lambda shown: shown.span_ns == whole.span_ns)


def pick_a_stall(stage):
    """Click the last of Top stalls: Details tell of the collective that was waited for."""
    app = opened(stage)
    collectives = lambda shown: shown.all("overlap", "stall:AG") + shown.all("overlap", "stall:RS")
    stall = collectives(app.until("stalls", collectives))[-1]
    kind, unit = stall.id.split(":")[1].split()[:2]
    name = {"AG": "all_gather", "RS": "reduce_scatter"}[kind]
    app.click(stall)
    app.until(f"{name} {unit}", lambda shown: (shown.text("details", "title") or "").startswith(f"{name} {unit}"))


def read_the_log(stage):
    """Ctrl+3: the log, and how healthy the recording was."""
    app = opened(stage)
    app.key("ctrl+3")
    app.until("the log", lambda shown: shown.find("log", "dropped"))


def go_to_a_step(stage):
    """G, a number, Enter: that step is in view; one that is not there is said."""
    app = opened(stage)
    app.key("g")
    app.until("the question", lambda shown: shown.find("go_to", "range"))
    app.type("999")
    app.key("Return")
    app.until("an error", lambda shown: "999" in (shown.text("go_to", "error") or ""))
    app.type("3")
    app.until("the number", lambda shown: shown.text("go_to", "field:##step") == "3")
    stage.take_picture()
    app.key("Return")
    app.until("step 3", lambda shown: not shown.all("go_to") and shown.find("timeline", "step:3"))


def fold_all(stage):
    """Click "ranks": every rank is a strip; Z: all have their lanes again."""
    app = opened(stage)
    height = lambda shown: shown.find("timeline", "rank:1").box[1] - shown.find("timeline", "rank:0").box[1]
    tall = height(app.shown())
    app.click(app.item("timeline", "fold_all"))
    app.until("strips", lambda shown: height(shown) < tall / 2)
    stage.take_picture()
    app.key("z")
    app.until("lanes", lambda shown: height(shown) == tall)


def order_ranks(stage):
    """Drag the name of rank 0 under rank 1: its lanes stand there; Ctrl+[ moves the rank under the mouse up again."""
    app = opened(stage)
    top = lambda shown, rank: shown.find("timeline", f"rank:{rank}").box[1]
    shown = app.shown()
    before = [top(shown, 0), top(shown, 1)]
    assert before[0] < before[1]
    x, y = app.item("timeline", "rank:0").middle
    app.drag((x, y), (x, round(y + 1.8 * (before[1] - before[0]))))
    app.until("rank 1 over rank 0", lambda shown: top(shown, 1) < top(shown, 0))
    stage.take_picture()
    app.key("ctrl+bracketleft")
    app.until("as before", lambda shown: [top(shown, 0), top(shown, 1)] == before)


def legend(stage):
    """Click the three colours: the legend of the timeline goes, and comes back."""
    app = opened(stage)
    named = lambda shown: {item.id for item in shown.all("timeline", "legend:")}
    assert {"legend:stall", "legend:emulated"} <= named(app.shown())
    app.click(app.item("timeline", "legend"))
    app.until("no legend", lambda shown: not named(shown))
    app.click(app.item("timeline", "legend"))
    app.until("the legend", named)
