"""The real window, under Xvfb: it opens, draws, costs no CPU while nothing happens, and exits cleanly when it is closed.

usage: window_test.py SHARDSCOPE
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
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


def main():
    with tempfile.TemporaryDirectory() as home, Desktop() as desktop:
        app = subprocess.Popen([os.path.abspath(sys.argv[1]), "open"], cwd=home, env=dict(desktop.environment, XDG_CONFIG_HOME=home))
        try:
            check(app, desktop)
        finally:
            app.kill()
            app.wait()


if __name__ == "__main__":
    main()
