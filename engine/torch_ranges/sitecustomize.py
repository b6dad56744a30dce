"""Run by every Python that `shardscope record` starts: has libshardscope_torch.so loaded once torch has been imported.

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
    """Whatever goes wrong, the program goes on; its trace says that it has no ranges of torch."""
    try:
        import ctypes
        version = str(getattr(torch, "__version__", "of unknown version"))
        reason = ""
        if not version.startswith(_VERSION):
            reason = f"PyTorch {version} has another interface than {_VERSION}x, whose ranges can be recorded"
        else:
            try:
                ctypes.CDLL(_LIBRARY).ShardscopeTorchStart()
            except (OSError, AttributeError) as error:
                reason = f"PyTorch's ranges are not recorded: {error}"
        if reason:
            ctypes.CDLL(_RECORDER).ShardscopeState(b"torch", b"off", reason.encode())
    except Exception:
        pass


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
