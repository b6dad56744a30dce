"""One test of the real window, under Xvfb: it opens, shows a window of its own, and exits cleanly on quit.

usage: window_test.py SHARDSCOPE
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time


def window_is_there(name):
    tree = subprocess.run(["xwininfo", "-root", "-tree"], capture_output=True, text=True)
    return name in tree.stdout


def main():
    program = sys.argv[1]
    if "--inside" not in sys.argv:
        if shutil.which("xvfb-run") is None:
            print("xvfb-run is missing: run scripts/setup")
            return 1
        inside = [sys.executable, __file__, program, "--inside"]
        return subprocess.run(["xvfb-run", "-a", "-s", "-screen 0 1700x1000x24", *inside],
                              timeout=120).returncode
    with tempfile.TemporaryDirectory() as home:
        environment = dict(os.environ, XDG_CONFIG_HOME=home, LIBGL_ALWAYS_SOFTWARE="1")
        # The app writes its layout file once its first frames are drawn, so that file is the sign of a window with
        # panels in it; SIGTERM is how a session manager asks it to quit.
        app = subprocess.Popen([program, "open"], env=environment, cwd=home)
        settings = os.path.join(home, "shardscope")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and app.poll() is None:
            if os.path.isdir(settings) and os.listdir(settings):
                break
            time.sleep(0.1)
        if app.poll() is not None:
            print(f"the app ended by itself with {app.returncode}")
            return 1
        if not os.path.isdir(settings) or not os.listdir(settings):
            print("the app drew no frame")
            app.kill()
            return 1
        before = os.times()
        app.terminate()
        code = app.wait(timeout=30)
        del before
        if code != 0:
            print(f"asked to quit, the app exited with {code}")
            return 1
    print("window opened and closed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
