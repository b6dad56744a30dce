"""The real window, under Xvfb: it opens, draws, costs no CPU while nothing happens, and exits cleanly when it is closed.

usage: window_test.py SHARDSCOPE
"""
import ctypes
import ctypes.util
import os
import shutil
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 60


class ClientMessage(ctypes.Structure):
    """XClientMessageEvent, padded to the size of XEvent."""
    _fields_ = [("type", ctypes.c_int), ("serial", ctypes.c_ulong), ("send_event", ctypes.c_int),
                ("display", ctypes.c_void_p), ("window", ctypes.c_ulong), ("message_type", ctypes.c_ulong),
                ("format", ctypes.c_int), ("data", ctypes.c_long * 5), ("pad", ctypes.c_long * 16)]


class Display:
    def __init__(self):
        self.x = ctypes.CDLL(ctypes.util.find_library("X11") or "libX11.so.6")
        self.x.XOpenDisplay.restype = ctypes.c_void_p
        self.x.XDefaultRootWindow.restype = ctypes.c_ulong
        self.x.XInternAtom.restype = ctypes.c_ulong
        self.handle = ctypes.c_void_p(self.x.XOpenDisplay(None))
        assert self.handle, "no display"

    def find_window(self, title):
        root = ctypes.c_ulong(self.x.XDefaultRootWindow(self.handle))
        found, parent = ctypes.c_ulong(), ctypes.c_ulong()
        children, count = ctypes.POINTER(ctypes.c_ulong)(), ctypes.c_uint()
        self.x.XQueryTree(self.handle, root, ctypes.byref(found), ctypes.byref(parent),
                          ctypes.byref(children), ctypes.byref(count))
        for i in range(count.value):
            name = ctypes.c_char_p()
            self.x.XFetchName(self.handle, ctypes.c_ulong(children[i]), ctypes.byref(name))
            if name.value == title.encode():
                return children[i]
        return None

    def close_window(self, window):
        """What the cross in a title bar sends."""
        atom = lambda name: self.x.XInternAtom(self.handle, name, 0)
        event = ClientMessage(type=33, window=window, message_type=atom(b"WM_PROTOCOLS"), format=32)
        event.data[0] = atom(b"WM_DELETE_WINDOW")
        self.x.XSendEvent(self.handle, ctypes.c_ulong(window), 0, ctypes.c_long(0), ctypes.byref(event))
        self.x.XFlush(self.handle)


def wait_for(what, condition, app):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if app.poll() is not None:
            sys.exit(f"window_test: the app ended by itself with {app.returncode}, before {what}")
        result = condition()
        if result:
            return result
        time.sleep(0.1)
    app.kill()
    sys.exit(f"window_test: no {what} within {PATIENCE_S} s")


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def inside(program):
    display = Display()
    with tempfile.TemporaryDirectory() as home:
        app = subprocess.Popen([program, "open"], cwd=home,
                               env=dict(os.environ, XDG_CONFIG_HOME=home, LIBGL_ALWAYS_SOFTWARE="1"))
        window = wait_for("window", lambda: display.find_window("Shardscope"), app)
        # Nothing happens any more: the CPU time used must stop growing.
        def idle():
            before = cpu_seconds(app.pid)
            time.sleep(1)
            return cpu_seconds(app.pid) - before <= 0.02
        wait_for("idle second", idle, app)
        display.close_window(window)
        try:
            code = app.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            app.kill()
            sys.exit("window_test: the app went on after its window was closed")
        if code != 0:
            sys.exit(f"window_test: the app exited with {code}")


def main():
    if "--inside" in sys.argv:
        return inside(os.path.abspath(sys.argv[1]))
    if shutil.which("xvfb-run") is None:
        sys.exit("window_test: xvfb-run is missing; run scripts/setup")
    command = ["xvfb-run", "-a", "-s", "-screen 0 1700x1000x24", sys.executable, __file__, sys.argv[1], "--inside"]
    sys.exit(subprocess.run(command).returncode)


if __name__ == "__main__":
    main()
