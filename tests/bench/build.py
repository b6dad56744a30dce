#!/usr/bin/env python3
"""What a build costs, in CPU time over that of compiling imgui.cpp alone: the demo's, everything's, and after a change."""

import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from figures import Table  # noqa: E402

# Commit fb2b50c, when every source was compiled alone, by this script with --commit.
BEFORE = {("release", "demo"): 75.5}
BUDGETS = {"demo": 0.45, "everything": 0.60}  # of that
CHANGES = ("engine/plan/op.h", "trace/schema/tables.py", "ui/panels/memory/memory_panel.cc")


def run(*command, cwd):
    """Seconds of CPU and of the clock."""
    environment = dict(os.environ, CCACHE_DISABLE="1", NINJA_STATUS="[%f/%t, %es] ")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    subprocess.run(command, cwd=cwd, env=environment, check=True, stdout=sys.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - start


def export(commit, folder):
    """The sources of a commit, or those of the working tree, in a folder of their own: changes are made there."""
    if commit:
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    else:
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
        names = b"\0".join(name for name in listed.split(b"\0") if (ROOT / os.fsdecode(name)).is_file())
        archive = subprocess.run(["tar", "c", "--null", "-T", "-"], cwd=ROOT, input=names, check=True, capture_output=True).stdout
    subprocess.run(["tar", "x", "-C", folder], input=archive, check=True)


def unit():
    """CPU seconds of compiling imgui.cpp with the flags of a release build."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "shardscope"
    [source] = cache.glob("sources/imgui_bundle-*/external/imgui/imgui/imgui.cpp")
    command = ("c++", "-std=c++20", "-O2", "-fPIC", "-w", "-DIMGUI_DISABLE_OBSOLETE_FUNCTIONS", "-c", str(source), "-o", os.devnull)
    return statistics.median(run(*command, cwd=ROOT)[0] for _ in range(3))


def measure(folder, preset, steps, table):
    """Builds the targets of each step after those of the step before, from nothing, and says what they cost together."""
    build = folder / "build" / preset
    run("cmake", "--preset", preset, cwd=folder)
    total = wall = 0
    for name, targets in steps:
        imgui = unit()
        cpu, seconds = run("cmake", "--build", str(build), *(["--target", *targets] if targets else []), cwd=folder)
        total += cpu / imgui
        wall += seconds
        before = BEFORE.get((preset, name))
        measured = f"{total:.1f} ({wall / 60:.1f} minutes)"
        if before:
            measured += f", {total / before:.2f} of {before:g} before"
        table.add(f"Preset {preset}, {name}: CPU time over that of imgui.cpp", measured, f"<= {BUDGETS[name]} of before",
                  total / before <= BUDGETS[name] if before else None)


def measure_changes(folder, targets, table):
    build = folder / "build" / "release"
    for name in CHANGES:
        path = folder / name
        # A comment is a change to the compiler's cache and to ninja, and none to the program.
        path.write_text(path.read_text() + ("# changed\n" if name.endswith(".py") else "// changed\n"))
        cpu, seconds = run("cmake", "--build", str(build), *(["--target", *targets] if targets else []), cwd=folder)
        table.add(f"After a change of `{name}`", f"{cpu:.0f} s of CPU, {seconds:.0f} s", "", None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", help="not used: it builds in folders of its own")
    parser.add_argument("--quick", action="store_true", help="the demo's programs only")
    parser.add_argument("--sanitizers", action="store_true", help="the presets tsan and asan too, as .ci/run")
    parser.add_argument("--commit", help="another commit than the working tree")
    options = parser.parse_args()
    table = Table()
    demo = ["shardscope", "shardscope-train"]
    with tempfile.TemporaryDirectory(prefix="shardscope-bench-") as name:
        folder = pathlib.Path(name)
        export(options.commit, folder)
        measure(folder, "release", [("demo", demo)] if options.quick else [("demo", demo), ("everything", [])], table)
        measure_changes(folder, demo if options.quick else [], table)
        for preset in ("tsan", "asan") if options.sanitizers else ():
            measure(folder, preset, [("everything", [])], table)
    table.print()


if __name__ == "__main__":
    main()
