"""Folders of torch.distributed.checkpoint as PyTorch 2.11 writes them, without PyTorch: the same pickles of the same classes, and one
torch.save() archive a chunk. And how torchtitan names and orders what Hugging Face's Llama has."""

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

# Of the layers of Hugging Face's Llama.
TORCHTITAN = {"input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attention.wq",
              "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv", "self_attn.o_proj": "attention.wo",
              "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3", "mlp.down_proj": "feed_forward.w2"}


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


def in_pairs(rows, heads):
    """Rows of queries or keys in torchtitan's order, of those in Hugging Face's: _reverse_permute() of its llama3/state_dict_adapter.py."""
    head = len(rows) // heads
    return [rows[at * head + of * head // 2 + pair] for at in range(heads) for pair in range(head // 2) for of in range(2)]


def fused(queries, keys, values, heads, kv_heads):
    """_merge_qkv_on_load() of torchtitan's FusedQKVLinear."""
    head, each = len(queries) // heads, heads // kv_heads
    rows = []
    for at in range(kv_heads):
        rows += queries[at * each * head:(at + 1) * each * head] + keys[at * head:(at + 1) * head] + values[at * head:(at + 1) * head]
    return rows


def torchtitan_name(name, newer):
    """Of Hugging Face's. `newer`: as of 2026."""
    fixed = {"model.embed_tokens.weight": "tok_embeddings.weight", "model.norm.weight": "norm.weight",
             "lm_head.weight": "lm_head.weight" if newer else "output.weight"}
    if name in fixed:
        return fixed[name]
    _, _, layer, *module, kind = name.split(".")
    theirs = TORCHTITAN[".".join(module)]
    if newer and theirs[-2:] in ("wq", "wk", "wv"):
        theirs = theirs.replace("attention.", "attention.qkv_linear.")
    return f"layers.{layer}.{theirs}.{kind}"
