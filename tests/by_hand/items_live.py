"""A run while it trains: following, steering, pausing, what happens to it from outside."""

from by_hand.stage import is_alive, state, step


def follow(stage):
    """Watch: steps are counted, and the newest is in view."""
    app = stage.live()
    first = step(app.shown())
    shown = app.until("more steps", lambda shown: step(shown) >= first + 5)
    assert shown.view["follow"] and state(shown) == "LIVE"
    assert max(item.value for item in shown.all("timeline", "step:")) >= first


def steer_a_choice(stage):
    """Click another backward prefetch: pending, then in force, with a dashed line and a card of before and after."""
    app = stage.live()
    app.click(next(i for i in app.shown().all("run_control", "segment:none")))
    app.until("the new value", lambda shown: shown.text("run_control", "knob:prefetch.backward") == "none")
    shown = app.until("the card", lambda shown: shown.find("run_control", "change.step"))
    assert not shown.find("run_control", "error")


def steer_the_strategy(stage):
    """Click DDP, ZERO2, HYBRID, PIPELINE: what ranks keep moves, lanes are those of the strategy, knobs without effect are grey."""
    app = stage.live()
    for strategy, lane in (("DDP", "all-reduce"), ("ZERO2", "reduce-scatter"), ("HYBRID", "all-reduce"),
                           ("PIPELINE", "send activation"), ("FULL", "all-gather")):
        app.click(next(i for i in app.shown().all("run_control", "segment:") if i.text == strategy))
        shown = app.until(strategy, lambda shown: shown.text("run_control", "knob:strategy") == strategy.lower())
        changed = step(shown)
        app.until("its steps", lambda shown: step(shown) > changed + 3 and lane in shown.texts("timeline"))
        assert not app.shown().find("run_control", "error")
        stage.take_picture()


def steer_a_slider(stage):
    """Drag the bandwidth to the right: the link is faster, steps are shorter."""
    app = stage.live()
    before = app.shown().text("run_control", "knob:link.bandwidth")
    slider = lambda: next(i for i in app.shown().all("run_control", "slider:") if i.text == "Bandwidth")
    in_view = app.item("run_control", "knob:unit.policy").middle
    app.move(in_view)
    for _ in range(40):  # it may lie below what is in view
        if slider().middle[1] <= in_view[1]:
            break
        app.desktop.do("click", 5)
        stage.wait(0.2)
    x, y = slider().middle
    app.drag((x, y), (x + 60, y))
    app.until("the new value", lambda shown: shown.text("run_control", "knob:link.bandwidth") != before)
    app.until("the card", lambda shown: shown.find("run_control", "change.step"))


def steer_a_text(stage):
    """Type another wrap policy and press Enter: it is in force."""
    app = stage.live()
    _, y = app.item("run_control", "knob:unit.policy").middle
    app.click(min(app.shown().all("run_control", "field:##text"), key=lambda field: abs(field.middle[1] - y)))
    app.type("module")
    app.key("Return")
    app.until("the new value", lambda shown: shown.text("run_control", "knob:unit.policy") == "module")
    app.until("the card", lambda shown: shown.find("run_control", "change.step"))


def list_the_changes(stage):
    """C, after a knob was turned: the change is listed; a click shows its step."""
    app = stage.live()
    app.click(next(i for i in app.shown().all("run_control", "segment:none")))
    shown = app.until("the card", lambda shown: shown.find("run_control", "change.step"))
    changed = shown.find("run_control", "change.step").value
    app.until("later steps", lambda shown: step(shown) > changed + 3)
    app.key("c")
    shown = app.until("the list", lambda shown: shown.find("changes", f"change:{changed}"))
    stage.take_picture()
    app.click(shown.find("changes", f"change:{changed}"))
    app.until("its step", lambda shown: not shown.all("changes") and shown.find("timeline", f"step:{changed}"))
    app.until("no following", lambda shown: not shown.view["follow"])


def choose_a_scope(stage):
    """Turn a knob: the figures are of the steps since; the chip at the figures, then R, choose others."""
    app = stage.live()
    assert app.shown().text("top_bar", "scope") == "since the start"
    app.click(next(i for i in app.shown().all("run_control", "segment:none")))
    app.until("figures since the change", lambda shown: (shown.text("top_bar", "scope") or "").startswith("since step"))
    app.click(app.item("top_bar", "scope"))
    app.click(app.item("top_bar", "option:whole run"))
    shown = app.until("the whole run", lambda shown: shown.text("top_bar", "scope") == "whole run")
    assert shown.text("overlap", "scope") == "whole run"
    app.key("r")
    app.until("the next scope", lambda shown: shown.text("top_bar", "scope") != "whole run")


def pause(stage):
    """Space: PAUSED at the next step boundary, and the last steps stay in view."""
    app = stage.live()
    shown = paused(app)
    last = step(shown)
    stage.wait(1.5)
    shown = app.shown()
    assert step(shown) == last, "it trains on"
    assert shown.all("timeline", "op_run:"), "the timeline is blank"


def paused(app):
    app.key("space")
    return app.until("pause", lambda shown: state(shown) == "PAUSED")


def single_step(stage):
    """Paused, three times the step key: three more steps, still paused."""
    app = stage.live()
    last = settled_step(stage, app)
    for more in range(1, 4):
        app.key("shift+space")
        app.until("a step", lambda shown: step(shown) == last + more)
        stage.wait(0.5)
    assert state(app.shown()) == "PAUSED"


def settled_step(stage, app):
    paused(app)
    stage.wait(1)
    return step(app.shown())


def resume(stage):
    """Space again: LIVE, and steps are counted on."""
    app = stage.live()
    last = settled_step(stage, app)
    app.key("space")
    app.until("steps", lambda shown: state(shown) == "LIVE" and step(shown) > last + 1)


def resize_while_live(stage):
    """Make the window smaller and larger again: everything stays inside it, and it goes on."""
    app = stage.live()
    for size in ((1100, 700), (1650, 950)):
        app.resize(*size)
        shown = app.until("the new size", lambda shown: shown.size == size)
        outside = [i.id for i in shown.items if i.panel in ("top_bar", "run_control") and i.box[2] > size[0] + 1]
        assert not outside, f"outside of the window: {outside}"
    last = step(app.shown())
    app.until("more steps", lambda shown: step(shown) > last)


def hover_while_live(stage):
    """Rest the mouse on a span: its tooltip stays, whole, and the view stands still; it goes on when the mouse leaves."""
    app = stage.live()
    app.move(widest_span(app.shown()))
    shown = app.until("a tooltip", lambda shown: shown.find("timeline", "tooltip"))
    stage.wait(0.5)
    held = app.shown()
    stage.wait(1.5)
    assert app.shown().view["start_ns"] == held.view["start_ns"], "the view moves under the mouse"
    x0, y0, x1, y1 = shown.find("timeline", "tooltip").box
    assert x0 >= 0 and y0 >= 0 and x1 <= shown.size[0] and y1 <= shown.size[1], "the tooltip is cut"
    stage.take_picture()
    app.move((5, shown.size[1] - 5))
    app.until("following", lambda shown: shown.view["start_ns"] > held.view["start_ns"])


def widest_span(shown, rank=0):
    return max(shown.all("timeline", f"op_run:{rank}:"), key=lambda item: item.box[2] - item.box[0])


def pan_away_and_come_back(stage):
    """Drag the timeline to the right: following ends and older steps come; End follows again."""
    app = stage.live()
    app.until("some steps", lambda shown: step(shown) >= 10)
    x, y = lanes(app.shown())
    app.drag((x, y), (x + 300, y))
    app.until("no following", lambda shown: not shown.view["follow"])
    stage.wait(0.5)
    left = app.shown()
    app.until("more steps", lambda shown: step(shown) > step(left) + 5)
    assert app.shown().view == left.view, "the view moves by itself"
    stage.take_picture()
    app.key("End")
    app.until("following", lambda shown: shown.view["follow"] and shown.view["end_ns"] > left.view["end_ns"])


def lanes(shown):
    """A place in the middle of the lanes of rank 0."""
    x, y = shown.find("timeline", "rank:0").middle
    return x + 400, y + 40


def fold_a_rank(stage):
    """Click a rank's name: its lanes become one strip; click again: they are back."""
    app = stage.live()
    height = lambda shown: shown.find("timeline", "rank:1").box[1] - shown.find("timeline", "rank:0").box[1]
    tall = height(app.shown())
    app.click(app.item("timeline", "rank:0"))
    app.until("a strip", lambda shown: height(shown) < tall / 2)
    app.click(app.item("timeline", "rank:0"))
    app.until("lanes", lambda shown: height(shown) == tall)


def kill_the_trainer(stage):
    """Kill the trainer: CUT, and what was recorded stays."""
    app = stage.live()
    drawn = max(item.value for item in app.shown().all("timeline", "step:"))  # the last of them may be running
    stage.trainer.kill()
    shown = app.until("CUT", lambda shown: state(shown) == "CUT")
    assert shown.all("timeline", "op_run:") and step(shown) >= drawn - 1


def stop(stage):
    """Stop, and answer what it asks: FINISHED, the trainer has ended by itself."""
    app = stage.live()
    app.click(app.item("top_bar", "button:stop"))
    asks = lambda shown: shown.find("stop_question", "button:stop")
    shown = app.until("a question or the end", lambda shown: asks(shown) or state(shown) == "FINISHED")
    if asks(shown):
        stage.take_picture()
        app.click(asks(shown))
    app.until("the end", lambda shown: state(shown) == "FINISHED")
    assert stage.trainer.wait(timeout=20) == 0


def close_and_attach_again(stage):
    """Close the window and open the run again: it has trained on, and can be steered."""
    app = stage.live()
    last = step(app.shown())
    assert app.close() == 0
    assert is_alive(stage.trainer), "the trainer ended with the app"
    app = stage.open(stage.run)
    app.until("steps", lambda shown: step(shown) > last and state(shown) == "LIVE")
    app.click(app.item("run_control", "segment:post"))
    app.until("the new value", lambda shown: shown.text("run_control", "knob:prefetch.backward") == "post")


def full_speed(stage):
    """A training of thousands of steps a second: keys, clicks and the cross are answered at once."""
    app = stage.open(stage.train_at_full_speed())
    app.until("steps", lambda shown: step(shown) >= 20)
    for theme in ("light", "dark"):
        app.key("ctrl+t")
        app.until(f"the {theme} theme", lambda shown: shown.theme == theme, patience_s=stage.answer_s)
    following = app.shown().view["follow"]
    app.click(app.item("timeline", "follow"))
    app.until("the toggle", lambda shown: shown.view["follow"] != following, patience_s=stage.answer_s)


def slow_renderer(stage):
    """Frames of 150 ms on such a training: the same, within half a second (a second on busy cores)."""
    stage.frame_ms = 150
    full_speed(stage)
