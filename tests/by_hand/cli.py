"""scripts/by_hand: goes through the checklist of docs/by_hand.md with a mouse and a keyboard of its own.

Each item has a window of its own on a screen of its own, is checked by what the app says that it drew, and leaves a picture: look at them.
"""

import argparse
import pathlib
import sys
import tempfile
import time
import traceback

from by_hand import items_finished, items_live, items_look, items_start, items_views
from by_hand.app import busy_loops
from by_hand.desktop import Desktop
from by_hand.stage import Stage

SCREEN = (1920, 1080)
# On busy cores an answer waits for the scheduler as well.
BUSY_ANSWER_S = 1.0

ITEMS = {item.__name__: item for item in (
    items_start.start_from_the_form, items_start.search_the_form, items_start.mistype_a_value, items_start.open_what_is_not_there,
    items_start.open_what_is_no_trace, items_start.start_with_data_that_is_missing, items_start.open_a_damaged_trace, items_start.drop_a_run,
    items_live.follow, items_live.steer_a_choice, items_live.steer_the_strategy, items_live.steer_a_slider, items_live.steer_a_text, items_live.list_the_changes,
    items_live.choose_a_scope, items_live.pause, items_live.single_step, items_live.resume, items_live.resize_while_live, items_live.hover_while_live,
    items_live.pan_away_and_come_back, items_live.fold_a_rank, items_live.kill_the_trainer, items_live.stop, items_live.close_and_attach_again,
    items_live.full_speed, items_live.slow_renderer,
    items_finished.open_a_finished_run, items_finished.zoom, items_finished.pan, items_finished.select_an_op,
    items_finished.fit_a_span, items_finished.tooltips, items_finished.memory, items_finished.jump_in_the_minimap,
    items_finished.whole_run, items_finished.measure_a_stretch, items_finished.along_spans, items_finished.pick_a_stall, items_finished.read_the_log,
    items_finished.go_to_a_step, items_finished.fold_all, items_finished.order_ranks,
    items_finished.legend,
    items_views.keep_a_bookmark, items_views.copy_a_link, items_views.find_a_setting, items_views.ranks_at_a_glance, items_views.sort_collectives, items_views.play_a_step,
    items_views.plan_beside, items_views.follow_an_advice, items_views.light_the_critical_path, items_views.take_a_lesson, items_views.close_a_run, items_views.search_a_run, items_views.blocks_of_a_moment,
    items_views.all_steps, items_views.save_what_is_shown, items_views.who_sends_to_whom, items_views.compare_two_runs, items_views.lanes_of_another_run, items_views.what_would_change_the_peak, items_views.read_the_schedule, items_views.train_with_a_schedule,
    items_look.palette, items_look.keys, items_look.menu, items_look.help, items_look.chinese, items_look.light_theme,
    items_look.large_text, items_look.scale_two, items_look.reset_the_layout,
)}


def checklist():
    """The items as docs/by_hand.md has them."""
    return "".join(f"{number}. `{name}`: {item.__doc__}\n" for number, (name, item) in enumerate(ITEMS.items(), 1))


def play(item, options, shared, picture):
    """Seconds it took; raises what went wrong."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shardscope-by-hand-") as folder, Desktop(*SCREEN) as desktop:
        with Stage(desktop, options.build / "bin", folder, shared, picture) as stage:
            stage.frame_ms = options.slow
            stage.answer_s = BUSY_ANSWER_S if options.busy else stage.answer_s
            item(stage)
    return time.monotonic() - start


def main(arguments, root):
    parser = argparse.ArgumentParser(prog="scripts/by_hand", description=__doc__)
    parser.add_argument("--busy", action="store_true", help="two busy loops beside it")
    parser.add_argument("--slow", type=int, default=0, metavar="MS", help="a frame takes at least so long")
    parser.add_argument("--out", type=pathlib.Path, help="where the pictures go; without it, a new folder")
    parser.add_argument("--build", type=pathlib.Path, default=root / "build" / "release")
    parser.add_argument("--list", action="store_true", help="print the checklist")
    parser.add_argument("items", nargs="*", metavar="ITEM", help="these only")
    options = parser.parse_args(arguments)
    if options.list:
        print(checklist(), end="")
        return 0
    unknown = [name for name in options.items if name not in ITEMS]
    if unknown:
        parser.error(f"no item {', '.join(unknown)}; --list names them")
    out = options.out or pathlib.Path(tempfile.mkdtemp(prefix="shardscope-pictures-"))
    out.mkdir(parents=True, exist_ok=True)
    loops = busy_loops() if options.busy else []
    try:
        failed = play_all(options, out)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    print(f"{len(failed)} failed{': ' if failed else ''}{', '.join(failed)}; look at the pictures in {out}")
    return 1 if failed else 0


def play_all(options, out):
    failed = []
    with tempfile.TemporaryDirectory(prefix="shardscope-by-hand-") as shared:
        for number, (name, item) in enumerate(ITEMS.items(), 1):
            if options.items and name not in options.items:
                continue
            picture = out / f"{number:02}-{name}.png"
            picture.unlink(missing_ok=True)
            try:
                print(f"PASS {number:2} {name} ({play(item, options, shared, picture):.1f} s)", flush=True)
            except Exception as problem:  # the next item is played all the same
                failed.append(name)
                where = traceback.extract_tb(problem.__traceback__)[-1]
                print(f"FAIL {number:2} {name}: {problem} ({pathlib.Path(where.filename).name}:{where.lineno})", file=sys.stderr, flush=True)
    return failed
