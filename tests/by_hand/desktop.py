"""A screen of its own (Xvfb) with a mouse, a keyboard and a camera (xdotool, maim): what a person has, for tests."""

import ctypes
import ctypes.util
import os
import pathlib
import shutil
import subprocess
import time

TOOLS = {"Xvfb": "xvfb", "xdotool": "xdotool", "maim": "maim"}  # and the Debian packages that have them


class ClientMessage(ctypes.Structure):
    """XClientMessageEvent, padded to the size of XEvent."""
    _fields_ = [("type", ctypes.c_int), ("serial", ctypes.c_ulong), ("send_event", ctypes.c_int),
                ("display", ctypes.c_void_p), ("window", ctypes.c_ulong), ("message_type", ctypes.c_ulong),
                ("format", ctypes.c_int), ("data", ctypes.c_long * 5), ("pad", ctypes.c_long * 16)]


class Desktop:
    """Use as a context manager; `environment` is for the programs that shall appear on it."""

    def __init__(self, width=1700, height=1000):
        missing = sorted(package for tool, package in TOOLS.items() if shutil.which(tool) is None)
        if missing:
            raise SystemExit(f"{', '.join(missing)} missing; run scripts/setup")
        read, write = os.pipe()
        self.server = subprocess.Popen(["Xvfb", "-displayfd", str(write), "-screen", "0", f"{width}x{height}x24", "-nolisten", "tcp"],
                                       pass_fds=[write], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(write)
        with os.fdopen(read) as pipe:
            number = pipe.readline().strip()
        if not number:
            raise SystemExit("Xvfb did not start")
        self.environment = dict(os.environ, DISPLAY=f":{number}", LIBGL_ALWAYS_SOFTWARE="1")
        # One xdotool for all commands: starting one for each would count into what is measured.
        self.hand = subprocess.Popen(["xdotool", "-"], stdin=subprocess.PIPE, text=True, env=self.environment,
                                     stderr=subprocess.DEVNULL)
        self.x = ctypes.CDLL(ctypes.util.find_library("X11") or "libX11.so.6")
        self.x.XOpenDisplay.restype = ctypes.c_void_p
        self.x.XDefaultRootWindow.restype = ctypes.c_ulong
        self.x.XInternAtom.restype = ctypes.c_ulong
        self.display = ctypes.c_void_p(self.x.XOpenDisplay(f":{number}".encode()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hand.stdin.close()
        self.hand.wait()
        self.x.XCloseDisplay(self.display)
        self.server.terminate()
        self.server.wait()

    def do(self, *words):
        """A command of xdotool, such as do("key", "ctrl+t")."""
        self.hand.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.hand.stdin.flush()

    def picture(self, path):
        subprocess.run(["maim", str(pathlib.Path(path))], env=self.environment, check=True, stderr=subprocess.DEVNULL)

    def find_window(self, title):
        """Its id, or None."""
        root = ctypes.c_ulong(self.x.XDefaultRootWindow(self.display))
        found, parent = ctypes.c_ulong(), ctypes.c_ulong()
        children, count = ctypes.POINTER(ctypes.c_ulong)(), ctypes.c_uint()
        self.x.XQueryTree(self.display, root, ctypes.byref(found), ctypes.byref(parent), ctypes.byref(children), ctypes.byref(count))
        for i in range(count.value):
            name = ctypes.c_char_p()
            self.x.XFetchName(self.display, ctypes.c_ulong(children[i]), ctypes.byref(name))
            if name.value == title.encode():
                return children[i]
        return None

    def close_window(self, window):
        """What the cross in a title bar sends."""
        atom = lambda name: self.x.XInternAtom(self.display, name, 0)
        event = ClientMessage(type=33, window=window, message_type=atom(b"WM_PROTOCOLS"), format=32)
        event.data[0] = atom(b"WM_DELETE_WINDOW")
        self.x.XSendEvent(self.display, ctypes.c_ulong(window), 0, ctypes.c_long(0), ctypes.byref(event))
        self.x.XFlush(self.display)


def wait_for(what, condition, patience_s=60, pause_s=0.02):
    """The first true value of `condition`."""
    deadline = time.monotonic() + patience_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"no {what} within {patience_s} s")
        time.sleep(pause_s)
