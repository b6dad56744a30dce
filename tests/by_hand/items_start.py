"""Starting and opening: the form, what is refused, what is no trace."""

import os

from by_hand.stage import SIZES, state, step


def start_from_the_form(stage):
    """Set keys in the form, start: the timeline comes up live and steps are counted."""
    app = stage.open()
    for key, value in [setting.split("=") for setting in [*SIZES, "train.steps=100000"]]:
        set_key(app, key, value)
    app.click(app.until("a start button", lambda shown: shown.text("runs", "button:start")).find("runs", "button:start"))
    run = stage.folder / "runs" / "run1"
    stage.end_training_of(run)
    shown = app.until("a live run", lambda shown: state(shown) == "LIVE" and step(shown) >= 2)
    assert shown.all("timeline", "op_run:"), "the timeline is not in front"


def set_key(app, key, value):
    """Finds the key with the search and types the value into its field."""
    search = app.item("runs", "field:##search")
    fill(app, search, key)
    shown = app.until(f"key {key}", lambda shown: shown.text("runs", "field:##search") == key and key in shown.texts("runs"))
    y = next(row for row in shown.all("runs", "text") if row.text == key).middle[1]
    field = next(field for field in shown.all("runs", "field:##value") if abs(field.middle[1] - y) < 12)
    fill(app, field, value)
    app.until(f"{key} = {value}", lambda shown: any(f.text == value for f in shown.all("runs", "field:##value")))


def fill(app, field, text):
    app.click(field)
    app.key("ctrl+a")
    app.type(text)


def search_the_form(stage):
    """Search the form for a word: only its keys are listed, all again once it is empty."""
    app = stage.open()
    fields = len(app.until("the form", lambda shown: shown.all("runs", "field:##value")).all("runs", "field:##value"))
    fill(app, app.item("runs", "field:##search"), "bandwidth")
    found = app.until("fewer keys", lambda shown: 0 < len(shown.all("runs", "field:##value")) < fields)
    assert "link.bandwidth" in found.texts("runs")
    app.key("ctrl+a", "BackSpace")
    app.until("all keys", lambda shown: len(shown.all("runs", "field:##value")) == fields)


def mistype_a_value(stage):
    """Type letters where a number belongs: the key says what it takes, and Start says what to do."""
    app = stage.open()
    set_key(app, "model.layers", "many")
    shown = app.until("an error", lambda shown: shown.find("runs", "error:model.layers"))
    assert shown.text("runs", "start_hint")


def open_what_is_not_there(stage):
    """Open a folder that does not exist: the reason stands where the path was typed."""
    app = stage.open()
    fill(app, app.item("runs", "field:##path"), "/no/such/run")
    app.key("Return")
    app.until("an error", lambda shown: "/no/such/run" in (shown.text("runs", "error") or ""))


def open_what_is_no_trace(stage):
    """Open a text file: it is told that this is no trace."""
    text = stage.folder / "notes.txt"
    text.write_text("to do: buy milk\n" * 100)
    app = stage.open()
    fill(app, app.item("runs", "field:##path"), str(text))
    app.key("Return")
    app.until("an error", lambda shown: "notes.txt" in (shown.text("runs", "error") or ""))


def start_with_data_that_is_missing(stage):
    """Start with a data path that is not there: the trainer's reason comes back to the form."""
    app = stage.open()
    set_key(app, "data.path", "/no/such/text")
    app.click(app.item("runs", "button:start"))
    app.until("the reason", lambda shown: "/no/such/text" in (shown.text("runs", "start_error") or ""))


def open_a_damaged_trace(stage):
    """Open a trace with bytes overwritten in the middle: the app says so or shows what it can, and lives."""
    run = stage.finished()
    trace = next(run.glob("trace-*.db"))
    with open(trace, "r+b") as file:
        size = os.path.getsize(trace)
        file.seek(size // 2)
        file.write(b"\xff" * min(size // 4, 65536))
    app = stage.open()
    fill(app, app.item("runs", "field:##path"), str(run))
    app.key("Return")
    app.until("an error or the run", lambda shown: shown.text("runs", "error") or shown.all("timeline", "op_run:")
              or shown.find("banner", "problem"))


def drop_a_run(stage):
    """A run's folder dropped onto the start page opens; one dropped onto the panel Compare is compared with it."""
    run = stage.finished()
    app = stage.open()
    shown = app.until("the start page", lambda shown: shown.all("runs", "field:##value"))
    app.drop(run, (shown.size[0] // 2, shown.size[1] // 2))
    app.until("the run", lambda shown: state(shown) == "FINISHED" and shown.all("timeline", "op_run:"))
    app.key("v")
    app.drop(run, app.item("compare", "form"))
    shown = app.until("a comparison", lambda shown: shown.find("compare", "sentence"))
    stage.take_picture()
    assert shown.find("compare", "side_b")
