"""Other views of a run, and what is kept of it: bookmarks, links, ranks, collectives, the time lens, the plan, lessons."""

import re

from by_hand.items_start import fill
from by_hand.stage import state, step


def keep_a_bookmark(stage):
    """B on a live run, a note, Enter: Ctrl+8 lists it, its file is in the run's folder, a click goes there."""
    app = stage.live()
    app.key("b")
    app.until("the form", lambda shown: shown.find("bookmark", "field:##note"))
    app.type("slow start")
    app.until("the note", lambda shown: shown.text("bookmark", "field:##note") == "slow start")
    app.key("Return")
    app.key("ctrl+8")
    shown = app.until("it in the list", lambda shown: shown.all("bookmarks", "bookmark:"))
    kept = shown.all("bookmarks", "bookmark:")[0]
    place = re.match(r"slow start\nsteps? (\d+)", kept.text)
    assert place, kept.text
    assert "slow start" in (stage.run / "bookmarks.json").read_text()
    stage.take_picture()
    last = step(shown)
    app.until("later steps", lambda shown: step(shown) > last + 5)
    app.click(kept)
    marked = int(place[1])
    app.until("its step", lambda shown: shown.find("timeline", f"step:{marked}") and not shown.view["follow"])


def copy_a_link(stage):
    """Ctrl+Shift+C, elsewhere, then G and the link pasted: the same stretch is in view again."""
    app = stage.live()
    app.key("ctrl+shift+c")
    link = app.until("what was copied", lambda shown: shown.find("notice", "done")).text("notice", "done")
    at = int(link.split("#step=")[1].split("&")[0])
    app.key("Home")
    app.until("the whole run", lambda shown: not shown.view["follow"])
    app.key("g")
    app.until("the question", lambda shown: shown.find("go_to", "field:##step"))
    app.key("ctrl+v")
    app.until("the link", lambda shown: f"#step={at}" in (shown.text("go_to", "field:##step") or ""))
    stage.take_picture()
    app.key("Return")
    app.until("its step", lambda shown: not shown.all("go_to") and shown.find("timeline", f"step:{at}"))


def find_a_setting(stage):
    """Ctrl+Shift+P, words of a setting, Enter: Run control shows it, marked."""
    app = stage.live()
    app.key("ctrl+shift+p")
    app.until("the palette", lambda shown: shown.find("palette", "field:##query"))
    app.type("rate limit")
    app.until("the setting", lambda shown: shown.text("palette", "marked:Rate limit") == "prefetch.limit")
    app.key("Return")
    shown = app.until("its mark", lambda shown: shown.find("run_control", "shown_key"))
    assert shown.text("run_control", "shown_key") == "prefetch.limit" and not shown.all("palette")


def ranks_at_a_glance(stage):
    """Ctrl+6 on a live run: a sentence and a cell for each step of each rank; a click on a cell shows that step in the timeline."""
    app = stage.live()
    app.key("ctrl+6")
    shown = app.until("cells of both ranks", lambda shown: shown.all("ranks", "cell:0:") and shown.all("ranks", "cell:1:"))
    assert shown.text("ranks", "sentence")
    stage.take_picture()
    app.click(shown.find("ranks", "cell:1:1"))
    app.until("step 1", lambda shown: shown.find("timeline", "step:1") and not shown.view["follow"])


def sort_collectives(stage):
    """Ctrl+7: a row for each collective of each unit; a click on a head sorts, another word adds up by kind."""
    app = stage.live()
    app.key("ctrl+7")
    calls = lambda shown: [item.value for item in shown.all("collectives", "calls:")]
    rows = len(calls(app.until("rows", calls)))
    app.click(app.item("collectives", "header:calls"))
    app.until("the most called first", lambda shown: len(calls(shown)) == rows and calls(shown) == sorted(calls(shown), reverse=True))
    app.click(app.item("collectives", "segment:by kind"))
    app.until("fewer rows", lambda shown: 0 < len(calls(shown)) < rows)


def play_a_step(stage):
    """P while another tab is in front: the timeline comes, a line moves through one step; - is slower, Space stops, Esc closes."""
    app = stage.live()
    app.key("ctrl+7")
    app.until("another tab", lambda shown: not shown.all("timeline"))
    app.key("p")
    place = lambda shown: shown.text("timeline", "lens_now")
    first = place(app.until("the line", place))
    app.until("it moving", lambda shown: place(shown) and place(shown) != first)
    speed = app.shown().text("timeline", "lens_speed")
    app.key("minus")
    app.until("slower", lambda shown: shown.text("timeline", "lens_speed") not in (None, speed))
    app.key("space")
    app.until("a pause", lambda shown: shown.text("timeline", "lens_play") == "Play")
    stopped = place(app.shown())
    stage.wait(0.5)
    assert place(app.shown()) == stopped, "it plays on"
    assert state(app.shown()) == "LIVE", "Space paused the training"
    stage.take_picture()
    app.key("Escape")
    app.until("no line", lambda shown: not place(shown))


def plan_beside(stage):
    """X: under each lane what the Schedule has planned, with a sentence; X again: gone."""
    app = stage.live()
    app.key("x")
    shown = app.until("the plan", lambda shown: shown.find("timeline", "plan") and shown.find("timeline", "plan_ops"))
    assert "planned" in shown.text("timeline", "plan")
    stage.take_picture()
    app.key("x")
    app.until("no plan", lambda shown: not shown.find("timeline", "plan"))


def follow_an_advice(stage):
    """Ctrl+9 on a live run: a card for each thing that would help; its button turns the knob, Undo turns it back."""
    app = stage.live()
    app.key("ctrl+9")
    value = lambda shown: shown.text("run_control", "knob:reshard_after_forward")
    app.click(app.item("advice", "knob:reshard_after_forward"))
    app.until("the new value", lambda shown: value(shown) == "false" and shown.find("advice", "undo"))
    stage.take_picture()
    app.click(app.item("advice", "undo"))
    app.until("the old value", lambda shown: value(shown) == "true" and not shown.find("advice", "undo"))


def light_the_critical_path(stage):
    """K on a live run: the critical path of the step in view is outlined, with what it is made of; K again: gone."""
    app = stage.live()
    app.key("k")
    shown = app.until("its parts", lambda shown: shown.all("timeline", "path_part:"))
    assert shown.text("timeline", "critical_path").startswith("Step ")
    stage.take_picture()
    app.key("k")
    app.until("no path", lambda shown: not shown.all("timeline", "path_part:"))


def take_a_lesson(stage):
    """Ctrl+5, a lesson, its run, its quiz: the run comes up live beside the text, the answer is judged with its reason."""
    app = stage.open()
    app.until("a window", lambda shown: shown.all("runs"))
    app.key("ctrl+5")
    app.click(app.item("lessons", "lesson:prefetch"))
    app.click(app.item("lessons", "button:start"))
    shown = app.until("its run", lambda shown: state(shown) == "LIVE" and step(shown) >= 2)
    run = next(path for path in stage.folder.rglob("trace-*.live.db")).parent
    stage.end_training_of(run)
    assert shown.text("lessons", "title")
    app.click(app.item("lessons", "quiz.choice:exposed"))
    app.click(app.until("its button", lambda shown: shown.find("lessons", "quiz.check")).find("lessons", "quiz.check"))
    app.until("a judgement", lambda shown: shown.find("lessons", "quiz.verdict"))


def close_a_run(stage):
    """Ctrl+W: the start page, with the run among the recent ones, beside a picture of its steps; a click opens it again."""
    app = stage.open(stage.finished())
    app.until("its spans", lambda shown: shown.all("timeline", "op_run:"))
    app.key("ctrl+w")
    shown = app.until("the start page", lambda shown: shown.all("runs", "run:") and not shown.text("top_bar", "state"))
    stage.take_picture()
    app.click(shown.all("runs", "run:")[0])
    app.until("its spans again", lambda shown: shown.all("timeline", "op_run:"))


def search_a_run(stage):
    """/ on a live run, a unit's name: how many ops there are and how long they take; F3 selects the next."""
    app = stage.live()
    app.key("slash")
    fill(app, app.item("search", "field:##query"), "unit:block1")
    hits = app.until("hits", lambda shown: shown.find("search", "count") and shown.find("search", "hit:0")).find("search", "count").value
    app.until("more of them as it trains", lambda shown: shown.find("search", "count").value > hits)
    app.key("F3")
    app.until("one of them", lambda shown: "block1" in (shown.text("details", "title") or ""))


def blocks_of_a_moment(stage):
    """M on a live run: what the peak is made of, block by block; a click into Memory: another moment; with Ctrl: what came and went; a click on a block: its op."""
    app = stage.live()
    app.until("a few steps", lambda shown: step(shown) >= 3)
    app.move(app.item("top_bar", "state").middle)
    stage.wait(0.5)  # until the cursor has left the time axis
    app.key("m")
    shown = app.until("the peak", lambda shown: shown.find("blocks", "block:0"))
    assert shown.find("blocks", "live").value == shown.find("top_bar", "peak_bytes").value, "the peak is another"
    x0, y0, _, y1 = app.item("memory", "axis_max:0").box
    place = (round(x0 + 400), round(y1 + 20))
    app.click(place)
    shown = app.until("that moment", lambda shown: shown.find("blocks", "peak") or "peak" not in (shown.text("blocks", "at") or "peak"))
    assert shown.find("blocks", "rank").value == 0
    stage.desktop.do("keydown", "ctrl")
    app.click((place[0] - 150, place[1]))
    stage.desktop.do("keyup", "ctrl")
    app.until("what came and went", lambda shown: shown.find("blocks", "came"))
    stage.take_picture()
    block = next(item for item in app.shown().all("blocks", "block:") if " m0 " in item.text)
    whole_ns = app.shown().span_ns
    app.click(block)
    app.until("its op in view", lambda shown: shown.span_ns < whole_ns / 2 and not shown.view["follow"])


def all_steps(stage):
    """T on a live run: a bar and a row for each step, which follow it; a click on a heading sorts, a click on a bar leads to its step."""
    app = stage.live()
    app.key("t")
    shown = app.until("a row", lambda shown: shown.all("steps", "row:"))
    last = max(int(item.id.split(":")[1]) for item in shown.all("steps", "row:"))
    app.until("later rows, as it trains", lambda shown: shown.find("steps", f"row:{last + 3}"))
    app.click(app.item("steps", "header:step_ns"))
    app.until("the longest on top", lambda shown: _times(shown) == sorted(_times(shown), reverse=True))
    stage.take_picture()
    app.click(app.item("steps", "bar:3"))
    app.until("that step", lambda shown: shown.find("timeline", "step:3") and not shown.view["follow"])


def _times(shown):
    """Of the steps, from the top."""
    return [item.value for item in sorted(shown.all("steps", "step_ns:"), key=lambda item: item.box[1])]


def save_what_is_shown(stage):
    """Ctrl+E in Steps, Ctrl+S, Ctrl+Shift+S: a CSV, a PNG and an SVG in the run's folder, each said with its path; the menu does it, too."""
    app = stage.live()
    app.key("t")
    app.until("rows", lambda shown: shown.all("steps", "row:"))
    exports = stage.run / "exports"
    for key, name in (("ctrl+e", "steps-1.csv"), ("ctrl+s", "shardscope-1.png"), ("ctrl+shift+s", "shardscope-1.svg")):
        app.key(key)
        app.until(f"{name} said", lambda shown: name in (shown.text("notice", "done") or ""))
        assert (exports / name).stat().st_size > 100, name
    assert (exports / "steps-1.csv").read_bytes().startswith(b"step,step_ns,")
    assert (exports / "shardscope-1.png").read_bytes().startswith(b"\x89PNG")
    assert b"Steps" in (exports / "shardscope-1.svg").read_bytes()
    stage.take_picture()
    app.key("F10")
    app.click(app.item("menu", "row:Save a picture of the window"))
    app.until("the second picture", lambda shown: "shardscope-2.png" in (shown.text("notice", "done") or "") and not shown.all("menu"))


def who_sends_to_whom(stage):
    """Ctrl+7 on a live run, then who sends to whom: the bytes between ranks, which are those of the table."""
    app = stage.live()
    app.key("ctrl+7")
    app.until("its collectives", lambda shown: shown.find("collectives", "points"))
    app.click(app.item("collectives", "segment:who sends to whom"))
    shown = app.until("the matrix", lambda shown: shown.find("collectives", "sent:0:1"))
    stage.take_picture()
    assert shown.find("collectives", "sent:1:0") and not shown.find("collectives", "points")


def compare_two_runs(stage):
    """V on a live run, a finished one of the recent runs as B: a sentence, parts, rows; a click on a row leads to its op in A."""
    finished = stage.finished()
    app = stage.live()
    app.until("a few steps", lambda shown: step(shown) >= 6)
    app.key("v")
    fill(app, app.item("compare", "field:##path"), str(finished))
    app.key("Return")
    shown = app.until("a comparison", lambda shown: shown.find("compare", "sentence") and shown.all("compare", "row:"))
    assert shown.find("compare", "part:step") and shown.find("compare", "setting:train.steps")
    stage.take_picture()
    row = next(item for item in shown.all("compare", "row:") if item.text.startswith("compute"))
    app.click(row)
    app.until("its op", lambda shown: shown.text("details", "title"))


def what_would_change_the_peak(stage):
    """M on a live run, then what would change it: each change with what it saves; a click turns the knob."""
    app = stage.live()
    app.key("m")
    app.until("the peak", lambda shown: shown.find("blocks", "live"))
    app.click(app.item("blocks", "segment:what would change it"))
    shown = app.until("the choices", lambda shown: shown.all("blocks", "choice:"))
    needed = shown.find("blocks", "needed").value
    assert all(item.value < needed for item in shown.all("blocks", "choice:")), "what saves nothing is on top"
    stage.take_picture()
    turned = next(item for item in shown.all("blocks", "choice:") if "click to turn it" in item.text or item.id == "choice:checkpointing=full")
    app.click(turned)
    app.until("the change in the run", lambda shown: shown.find("blocks", "needed") and shown.find("blocks", "needed").value == turned.value)


def read_the_schedule(stage):
    """L on a live run: the Schedule as a grid, valid; a click on an op says what it waits for and selects it; as text, a letter too much is refused."""
    app = stage.live()
    app.key("l")
    app.until("a verdict", lambda shown: (shown.text("schedule", "valid") or "").startswith("Valid"))
    app.click(app.item("schedule", "op:6"))
    shown = app.until("what it waits for", lambda shown: shown.find("schedule", "selected") and shown.text("details", "title"))
    assert shown.text("schedule", "selected").startswith("6  ")
    stage.take_picture()
    app.click(app.item("schedule", "segment:text"))
    app.click(app.item("schedule", "field:##text"))
    app.key("ctrl+Home")
    app.type("x")
    app.key("ctrl+Return")
    app.until("a refusal", lambda shown: "line 1" in (shown.text("schedule", "refused") or ""))
    app.click(app.item("schedule", "link:revert"))
    app.until("the run's own", lambda shown: shown.find("schedule", "valid"))


def train_with_a_schedule(stage):
    """L on a live run: an op of the grid is issued later by Alt+Down; *Train with it* is taken up by the run, the link goes back to what strategy and prefetch give."""
    app = stage.live()
    app.key("l")
    app.click(app.item("schedule", "op:6"))
    app.until("the op", lambda shown: (shown.text("schedule", "selected") or "").startswith("6  "))
    app.key("alt+Down")
    app.until("the op moved", lambda shown: (shown.text("schedule", "selected") or "").startswith("7  ") and shown.find("schedule", "run"))
    stage.take_picture()
    app.click(app.item("schedule", "run"))
    app.until("it is in force", lambda shown: shown.find("schedule", "in_force") and not shown.find("schedule", "run"))
    stage.take_picture()
    app.click(app.item("schedule", "back"))
    app.until("what strategy and prefetch give", lambda shown: not shown.find("schedule", "in_force") and not shown.find("schedule", "pending"))


def lanes_of_another_run(stage):
    """With B compared, Shift+V on a live run: B's step under each lane, and a line on both; with an op selected, how much later it began in B; Shift+V again: gone."""
    other = stage.finished()
    app = stage.live()
    app.key("v")
    fill(app, app.item("compare", "field:##path"), str(other))
    app.key("Return")
    app.click(app.item("compare", "beside"))
    shown = app.until("B's step", lambda shown: shown.find("timeline", "beside_ops"))
    assert "Under each lane, B" in shown.text("timeline", "beside")
    stage.take_picture()
    app.key("shift+v")
    app.until("no B", lambda shown: not shown.find("timeline", "beside"))
