"""A file dragged from a file manager and dropped onto a window: XDND (version 5) as its source speaks it."""

import ctypes
import pathlib
import struct
import time

from by_hand.desktop import ClientMessage

CLIENT_MESSAGE, SELECTION_REQUEST, SELECTION_NOTIFY = 33, 30, 31
PATIENCE_S = 20


class Source:
    """The window that has the files. Use as a context manager."""

    def __init__(self, desktop, paths):
        self.x, self.display = desktop.x, desktop.display
        self.x.XCreateSimpleWindow.restype = ctypes.c_ulong
        self.data = "".join(f"{pathlib.Path(path).resolve().as_uri()}\r\n" for path in paths).encode()
        root = ctypes.c_ulong(self.x.XDefaultRootWindow(self.display))
        self.window = self.x.XCreateSimpleWindow(self.display, root, 0, 0, 1, 1, 0, ctypes.c_ulong(0), ctypes.c_ulong(0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.x.XDestroyWindow(self.display, ctypes.c_ulong(self.window))
        self.x.XFlush(self.display)

    def atom(self, name):
        return self.x.XInternAtom(self.display, name.encode(), 0)

    def tell(self, target, message, *data):
        event = ClientMessage(type=CLIENT_MESSAGE, window=target, message_type=self.atom(message), format=32)
        for at, value in enumerate([self.window, *data]):
            event.data[at] = value
        self.send(target, ctypes.byref(event))

    def send(self, target, event):
        self.x.XSendEvent(self.display, ctypes.c_ulong(target), 0, ctypes.c_long(0), event)
        self.x.XFlush(self.display)

    def drop(self, target, place):
        """Returns once the target says that it is done."""
        self.x.XSetSelectionOwner(self.display, ctypes.c_ulong(self.atom("XdndSelection")), ctypes.c_ulong(self.window), ctypes.c_ulong(0))
        self.tell(target, "XdndEnter", 5 << 24, self.atom("text/uri-list"))
        x, y = place
        self.tell(target, "XdndPosition", 0, x << 16 | y, 0, self.atom("XdndActionCopy"))
        self.wait("XdndStatus")
        self.tell(target, "XdndDrop", 0, 0)
        self.wait("XdndFinished")

    def wait(self, message):
        """Answers requests for the data until that message comes."""
        deadline = time.monotonic() + PATIENCE_S
        event = ctypes.create_string_buffer(192)  # an XEvent
        while time.monotonic() < deadline:
            if not self.x.XPending(self.display):
                time.sleep(0.01)
                continue
            self.x.XNextEvent(self.display, event)
            kind, = struct.unpack_from("i", event, 0)
            if kind == SELECTION_REQUEST:
                self.answer(event)
            elif kind == CLIENT_MESSAGE and struct.unpack_from("L", event, 40)[0] == self.atom(message):
                return
        raise AssertionError(f"no {message} within {PATIENCE_S} s")

    def answer(self, request):
        requestor, selection, target, where, when = struct.unpack_from("LLLLL", request, 40)
        self.x.XChangeProperty(self.display, ctypes.c_ulong(requestor), ctypes.c_ulong(where), ctypes.c_ulong(target), 8, 0, self.data, len(self.data))
        notify = struct.pack("i4xLi4xLLLLLL", SELECTION_NOTIFY, 0, 0, 0, requestor, selection, target, where, when)
        self.send(requestor, ctypes.create_string_buffer(notify, 192))
