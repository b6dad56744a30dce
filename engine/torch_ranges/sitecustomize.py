"""Run by every Python that `shardscope record` starts: has libshardscope_torch.so loaded once torch has been imported, and
attached to its CUDA allocator once torch has initialised CUDA.

Changes nothing else. Python finds this file because its folder stands first in PYTHONPATH; the sitecustomize that would
have been found otherwise is run too.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_LIBRARY = os.path.join(_HERE, os.pardir, "libshardscope_torch.so")
_RECORDER = os.path.join(_HERE, os.pardir, "libshardscope_inject.so")
_VERSION = "2.11."  # of the C++ interface that the library was built for


def _attach(torch):
    """Whatever goes wrong, the program goes on; its trace says what it lacks of torch."""
    try:
        import ctypes
        version = str(getattr(torch, "__version__", "of unknown version"))
        reason = ""
        if not version.startswith(_VERSION):
            reason = f"PyTorch {version} has another interface than {_VERSION}x, whose ranges can be recorded"
        else:
            try:
                library = ctypes.CDLL(_LIBRARY)
                library.ShardscopeTorchStart.restype = ctypes.c_char_p
                said = library.ShardscopeTorchStart().decode(errors="replace")
                reason = said and f"PyTorch's ranges are not recorded: {said}"
            except (OSError, AttributeError) as error:
                reason = f"PyTorch's ranges are not recorded: {error}"
        recorder = ctypes.CDLL(_RECORDER)
        if reason:
            recorder.ShardscopeState(b"torch", b"off", reason.encode())
        else:
            _attach_to_allocator(torch, library, recorder)
    except Exception:
        pass


def _attach_to_allocator(torch, library, recorder):
    """The allocator takes no listener before torch has initialised CUDA, which a program does when it first uses it, if ever."""
    import atexit
    import ctypes

    def say(status, reason):
        recorder.ShardscopeStateIfRecorded(b"memory", status, reason.encode())

    def say_unused():
        say(b"off", "PyTorch has not used CUDA; tensors of the CPU are not recorded")

    def attach():
        try:
            atexit.unregister(say_unused)
            library.ShardscopeTorchAllocator.restype = ctypes.c_char_p
            sink = ctypes.cast(recorder.ShardscopeAllocator, ctypes.c_void_p)
            reason = library.ShardscopeTorchAllocator(sink).decode(errors="replace")
            say(b"off" if reason else b"on", reason and f"events of PyTorch's CUDA allocator are not recorded: {reason}")
        except Exception:
            pass

    if torch.version.cuda is None:
        say(b"off", "this PyTorch has no CUDA allocator; tensors of the CPU are not recorded")
    else:
        atexit.register(say_unused)  # only then it is known
        torch.cuda._lazy_call(attach)


class _AfterTorch:
    """A finder that finds nothing itself: the import of torch gets one step more at its end.

    It stays until torch has been executed: many programs ask for its spec first, only to see whether it is there.
    """

    def __init__(self):
        self._asking = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self._asking:
            return None
        self._asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking = False
        execute = getattr(getattr(spec, "loader", None), "exec_module", None)
        if execute is None:
            return spec

        def exec_module(module):
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                _attach(module)

        try:
            spec.loader.exec_module = exec_module
        except AttributeError:
            pass  # a loader that cannot be changed: the program goes on without its ranges
        return spec


def _run_hidden():
    others = [folder for folder in sys.path if os.path.abspath(folder or os.curdir) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if "torch" in sys.modules:
    _attach(sys.modules["torch"])
else:
    sys.meta_path.insert(0, _AfterTorch())
_run_hidden()
