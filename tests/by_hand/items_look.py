"""Language, theme, size, palette and keys."""

from by_hand.items_finished import opened
from by_hand.stage import state


def palette(stage):
    """Ctrl+P, a word, Enter: the command is done and the palette is gone."""
    app = opened(stage)
    app.key("ctrl+p")
    app.until("the palette", lambda shown: shown.find("palette", "field:##query"))
    app.type("light")
    app.until("the word", lambda shown: shown.text("palette", "field:##query") == "light")
    stage.take_picture()
    app.key("Return")
    app.until("the light theme", lambda shown: shown.theme == "light" and not shown.all("palette"))


def keys(stage):
    """?: every key with what it does; Esc closes the list."""
    look_at_list(stage, "question", "keys", "key:", more_than=10)


def look_at_list(stage, key, panel, prefix, more_than):
    """Opens it with the key, and closes it again."""
    app = opened(stage)
    app.key(key)
    app.until(panel, lambda shown: len(shown.all(panel, prefix)) > more_than)
    stage.take_picture()
    app.key("Escape")
    app.until(f"no {panel}", lambda shown: not shown.all(panel, prefix))


def menu(stage):
    """F10, then a click on the menu: language, theme and size are changed in it; Esc closes it."""
    app = opened(stage)
    app.key("F10")
    app.until("the menu", lambda shown: shown.find("menu", "choice:Theme"))
    app.key("Escape")
    app.until("no menu", lambda shown: not shown.all("menu"))
    app.click(app.item("top_bar", "button:menu"))
    app.click(app.item("menu", "segment:light"))
    app.until("the light theme", lambda shown: shown.theme == "light")
    app.click(app.item("menu", "segment:A +"))
    app.until("larger text", lambda shown: shown.scale > 1)
    stage.take_picture()
    app.click(app.item("menu", "segment:中文"))
    app.until("Chinese", lambda shown: shown.language == "zh")


def help(stage):
    """F1: what the app shows and how it is used; Esc closes it."""
    look_at_list(stage, "F1", "help", "paragraph", more_than=2)


def chinese(stage):
    """Ctrl+L: everything but names of ops and keys is Chinese; again: English."""
    app = opened(stage)
    app.key("ctrl+l")
    shown = app.until("Chinese", lambda shown: shown.language == "zh" and state(shown) != "FINISHED")
    english = [i.text for i in shown.all("run_control", "text") if i.text.isascii() and " " in i.text and i.text[0].isupper()]
    assert not english, f"still English: {english}"


def light_theme(stage):
    """Ctrl+T: the light theme."""
    app = opened(stage)
    app.key("ctrl+t")
    app.until("the light theme", lambda shown: shown.theme == "light")


def large_text(stage):
    """Ctrl+= four times: everything grows by a half, nothing runs into its neighbour."""
    app = opened(stage)
    for _ in range(4):
        app.key("ctrl+equal")
    shown = app.until("scale 1.46", lambda shown: shown.scale > 1.4)
    assert_no_overlap(shown)


def scale_two(stage):
    """1920x1080 at scale 2: nothing overlaps, and Top stalls has rows."""
    app = opened(stage)
    app.resize(1920, 1080)
    for _ in range(8):
        app.key("ctrl+equal")
    shown = app.until("scale 2", lambda shown: shown.scale >= 2 and shown.size == (1920, 1080))
    assert_no_overlap(shown)
    assert shown.all("overlap", "stall:"), "Top stalls has no row"


def assert_no_overlap(shown):
    """No two texts of the top bar or of Run control lie over each other."""
    for panel in ("top_bar", "run_control"):
        texts = texts_in_view(shown, panel)
        for at, (text, a) in enumerate(texts):
            for other, b in texts[at + 1:]:
                apart = a[2] <= b[0] + 1 or b[2] <= a[0] + 1 or a[3] <= b[1] + 1 or b[3] <= a[1] + 1
                assert apart, f"{panel}: {text!r} {a} lies over {other!r} {b}"


def texts_in_view(shown, panel):
    """Texts and where they stand, but for the knobs of Run control that lie behind what stands under them, which is drawn after them."""
    items = shown.all(panel)
    answer = next((at for at, item in enumerate(items) if item.id == "answer"), len(items))
    end = items[answer].box[1] if answer < len(items) else float("inf")
    in_view = lambda at, item: at > answer or item.box[3] <= end
    return list(dict.fromkeys((i.text, i.box) for at, i in enumerate(items) if i.id.startswith("text") and in_view(at, i)))


def reset_the_layout(stage):
    """The palette's Reset layout: every panel is at its place again."""
    app = opened(stage)
    place = app.item("overlap", "rank").box
    app.key("ctrl+p")
    app.until("the palette", lambda shown: shown.find("palette", "field:##query"))
    app.type("reset layout")
    app.until("the words", lambda shown: shown.text("palette", "field:##query") == "reset layout")
    app.key("Return")
    app.until("the layout", lambda shown: not shown.all("palette") and shown.find("overlap", "rank").box == place)
