"""Folders of torch.distributed.checkpoint as PyTorch 2.11 writes them, without PyTorch: the same pickles of the same classes, and one
torch.save() archive a chunk."""

import contextlib
import io
import pathlib
import pickle
import struct
import sys
import types
import zipfile

METADATA = "torch.distributed.checkpoint.metadata"
FILESYSTEM = "torch.distributed.checkpoint.filesystem"


def class_of(module, name, base=object):
    return type(name, (base,), {"__module__": module})


class Constant:
    """torch.float32 and its like: a pickle only names them."""

    def __init__(self, name):
        self.name = name
        self.__module__ = "torch"

    def __reduce__(self):
        return self.name


class Size(tuple):
    __module__ = "torch"

    def __reduce__(self):
        return Size, (tuple(self),)


class Layout:
    def __reduce__(self):
        return MODULES["torch.serialization"]._get_layout, ("torch.strided",)


class Format:
    def __reduce__(self):
        return MODULES[METADATA]._MEM_FORMAT_ENCODING, (0,)


class Properties:
    __module__ = METADATA

    def __getstate__(self):
        return (self.dtype, Layout(), False, Format(), False)


def function(module, name):
    def one(*_):
        return None

    one.__module__, one.__qualname__, one.__name__ = module, name, name
    return one


def modules():
    made = {name: types.ModuleType(name) for name in ("torch", "torch._utils", "torch.serialization", "torch.distributed",
                                                      "torch.distributed.checkpoint", METADATA, FILESYSTEM)}
    Properties.__name__ = Properties.__qualname__ = "TensorProperties"
    for name in ("Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata", "MetadataIndex", "StorageMeta"):
        setattr(made[METADATA], name, class_of(METADATA, name))
    made[METADATA].TensorProperties = Properties
    made[METADATA]._MEM_FORMAT_ENCODING = class_of(METADATA, "_MEM_FORMAT_ENCODING", int)
    made[FILESYSTEM]._StorageInfo = class_of(FILESYSTEM, "_StorageInfo")
    made["torch"].Size = Size
    for name in ("float32", "float16", "complex64"):
        setattr(made["torch"], name, Constant(name))
    made["torch"].FloatStorage = class_of("torch", "FloatStorage")
    made["torch.serialization"]._get_layout = function("torch.serialization", "_get_layout")
    made["torch._utils"]._rebuild_tensor_v2 = function("torch._utils", "_rebuild_tensor_v2")
    return made


MODULES = modules()


@contextlib.contextmanager
def stand_ins():
    """In these modules pickle finds the classes."""
    real = {name: sys.modules.get(name) for name in MODULES}
    sys.modules.update(MODULES)
    try:
        yield
    finally:
        for name, module in real.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module


class Saved:
    """A tensor as torch.save() pickles it."""

    def __init__(self, sizes, strides=None):
        self.sizes = sizes
        self.strides = strides or tuple(product(sizes[at + 1:]) for at in range(len(sizes)))

    def __reduce__(self):
        storage = Storage(product(self.sizes))
        return MODULES["torch._utils"]._rebuild_tensor_v2, (storage, 0, tuple(self.sizes), tuple(self.strides), False, {})


class Storage:
    def __init__(self, count):
        self.count = count


class SavedPickler(pickle.Pickler):
    def persistent_id(self, value):
        return ("storage", MODULES["torch"].FloatStorage, "0", "cpu", value.count) if isinstance(value, Storage) else None


def product(sizes):
    result = 1
    for size in sizes:
        result *= size
    return result


def archive(sizes, values, strides=None, compression=zipfile.ZIP_STORED):
    program = io.BytesIO()
    with stand_ins():
        SavedPickler(program, protocol=2).dump(Saved(sizes, strides))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as packed:
        packed.writestr("archive/data.pkl", program.getvalue())
        packed.writestr("archive/byteorder", "little")
        packed.writestr("archive/data/0", struct.pack(f"<{len(values)}f", *values))
        packed.writestr("archive/version", "3\n")
    return out.getvalue()


class Folder:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.path.mkdir(parents=True)
        self.entries, self.places = {}, {}
        self.files = {}

    def record(self, module, name, **fields):
        made = getattr(MODULES[module], name)()
        made.__dict__.update(fields)
        return made

    def add(self, name, shape, values, cut=1, dtype="float32", **how):
        """A tensor of which each of `cut` ranks has written some rows."""
        rows = shape[0] if shape else 1
        row = product(shape[1:]) if shape else 1
        chunks = []
        for rank in range(cut):
            first, end = rows * rank // cut, rows * (rank + 1) // cut
            offsets = Size((first, *[0] * (len(shape) - 1))) if shape else Size()
            sizes = Size((end - first, *shape[1:])) if shape else Size()
            chunks.append(self.record(METADATA, "ChunkStorageMetadata", offsets=offsets, sizes=sizes))
            index = self.record(METADATA, "MetadataIndex", fqn=name, index=rank, offset=offsets)
            file = f"__{rank}_0.distcp"
            packed = archive(tuple(sizes), values[first * row:end * row], **how)
            data = self.files.setdefault(file, bytearray())
            self.places[index] = self.record(FILESYSTEM, "_StorageInfo", relative_path=file, offset=len(data), length=len(packed))
            data += packed
        properties = Properties()
        properties.dtype = getattr(MODULES["torch"], dtype)
        self.entries[name] = self.record(METADATA, "TensorStorageMetadata", properties=properties, size=Size(shape), chunks=chunks)

    def add_object(self, name):
        self.entries[name] = self.record(METADATA, "BytesStorageMetadata")

    def write(self, **more):
        for name, data in self.files.items():
            (self.path / name).write_bytes(data)
        root = self.record(METADATA, "Metadata", state_dict_metadata=self.entries, planner_data={}, storage_data=self.places,
                           storage_meta=self.record(METADATA, "StorageMeta", checkpoint_id=pathlib.PosixPath("/a/b"), save_id="x"), **more)
        with stand_ins():
            (self.path / ".metadata").write_bytes(pickle.dumps(root, protocol=4))
