"""The real window, under Xvfb: it opens, draws, costs no CPU while nothing happens, and exits cleanly when it is closed; a run that cannot be opened is told.

usage: window_test.py SHARDSCOPE
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from by_hand.app import App  # noqa: E402
from by_hand.desktop import Desktop, wait_for  # noqa: E402

PATIENCE_S = 60


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def check(app, desktop):
    def find_window():
        assert app.poll() is None, f"the app ended by itself with {app.returncode}"
        return desktop.find_window("Shardscope")

    # Nothing happens any more: the CPU time used must stop growing.
    def is_idle():
        before = cpu_seconds(app.pid)
        time.sleep(1)
        return cpu_seconds(app.pid) - before <= 0.02

    window = wait_for("window", find_window, PATIENCE_S)
    wait_for("idle second", is_idle, PATIENCE_S)
    desktop.close_window(window)
    assert app.wait(timeout=PATIENCE_S) == 0, f"the app exited with {app.returncode}"


def damaged_in(home):
    return pathlib.Path(home) / "trace-0.db"


def check_refusal(program, home, desktop):
    """As from an icon: standard error is no terminal, so that the window says why there is no run."""
    run = damaged_in(home)
    run.write_bytes(b"\xff" * 8192)
    with App(desktop, program, home, run, stderr=subprocess.PIPE) as app:
        said = app.until("an error on the start page", lambda shown: shown.text("runs", "error")).text("runs", "error")
        assert "give a run folder" in said, said  # the remedy
        assert app.close() == 1, f"the app exited with {app.process.returncode}"
        printed = app.process.stderr.read().decode()
        assert printed.startswith("shardscope open: ") and said.splitlines()[0] in printed, (said, printed)
    # Without a display the reader of that is all there is.
    environment = {name: value for name, value in desktop.environment.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    done = subprocess.run([program, "open", run], cwd=home, env=dict(environment, XDG_CONFIG_HOME=home), capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("shardscope open: "), done


def check_refusal_in_terminal(program, home, desktop):
    """In a terminal it is said there, at once, and no window comes."""
    leader, follower = os.openpty()
    app = subprocess.Popen([program, "open", damaged_in(home)], cwd=home, stderr=follower,
                           env=dict(desktop.environment, XDG_CONFIG_HOME=home))
    os.close(follower)
    try:
        assert app.wait(timeout=PATIENCE_S) == 1, f"the app exited with {app.returncode}"
        assert os.read(leader, 4096).startswith(b"shardscope open: ")
    finally:
        app.kill()
        app.wait()
        os.close(leader)


def main():
    with tempfile.TemporaryDirectory() as home, Desktop() as desktop:
        app = subprocess.Popen([os.path.abspath(sys.argv[1]), "open"], cwd=home, env=dict(desktop.environment, XDG_CONFIG_HOME=home))
        try:
            check(app, desktop)
        finally:
            app.kill()
            app.wait()
        program = os.path.abspath(sys.argv[1])
        check_refusal(program, home, desktop)
        check_refusal_in_terminal(program, home, desktop)


if __name__ == "__main__":
    main()
