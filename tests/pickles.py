"""Makes memory snapshots and flight recorders' dumps of PyTorch whose figures are known beforehand, as pickles of any protocol and as JSON."""

import json
import pickle
import struct

BASE_US = 1_700_000_000_000_000  # of the time of day


class Snapshot:
    """What torch.cuda.memory._snapshot() returns: events of some devices, and the segments that they lead to."""

    def __init__(self):
        self.traces = [[], []]
        self.segments = []
        self.annotations = []
        self.stacks = {}

    def frames(self, *names):
        """The same list for the same names, as PyTorch shares them."""
        if names not in self.stacks:
            self.stacks[names] = [{"name": name, "filename": "/home/me/train.py", "line": 10 + at} for at, name in enumerate(names)]
        return self.stacks[names]

    def event(self, action, at_us, size, addr=0, device=0, stream=0, frames=("step", "main"), **more):
        place = {"device_free": addr} if action == "oom" else {"addr": addr}
        self.traces[device].append({"action": action, **place, "size": size, "stream": stream, "time_us": BASE_US + at_us,
                                    "frames": self.frames(*frames), "compile_context": "N/A", "user_metadata": "", **more})

    def annotation(self, name, start_us, end_us, device=0):
        for stage, at_us in (("START", start_us), ("END", end_us)):
            self.annotations.append({"name": name, "stage": stage, "device": device, "time_us": BASE_US + at_us})
        self.annotations.sort(key=lambda one: one["time_us"])

    def segment(self, address, total, *blocks, device=0):
        """Blocks: (size, requested, state)."""
        made = []
        at = address
        for size, requested, state in blocks:
            made.append({"address": at, "size": size, "requested_size": requested, "state": state, "frames": self.frames("old", "main")})
            at += size
        self.segments.append({"device": device, "address": address, "total_size": total, "stream": 0, "segment_type": "large",
                              "allocated_size": sum(size for size, _, state in blocks if state == "active_allocated"),
                              "active_size": sum(size for size, _, state in blocks if state.startswith("active")),
                              "requested_size": 0, "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": made})

    def value(self):
        return {"segments": self.segments, "device_traces": self.traces, "allocator_settings":
                {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False", "max_split_size": -1, "roundup_power2_divisions": {"1": 0, "2": 0}},
                "external_annotations": self.annotations}


MEBI = 1 << 20


def known_snapshot():
    """Device 0 of two. Peak of 15 MiB + 1 KiB at 30 us, of which 4 MiB are from before the first event at 1 us;
    10 MiB in use in the end, 30 MiB reserved."""
    snapshot = Snapshot()
    snapshot.annotation("FSDP::pre_forward (layers.0)", 5, 15)
    snapshot.annotation("FSDP::all_gather (layers.0)", 6, 12)
    snapshot.event("segment_alloc", 1, 20 * MEBI, 0x10000)
    snapshot.event("alloc", 10, 8 * MEBI, 0x10000, frames=("gather", "main"))  # held in the end
    snapshot.event("alloc", 20, 3 * MEBI, 0x10000 + 8 * MEBI, user_metadata="activations")
    snapshot.event("alloc", 30, 700, 0x10000 + 12 * MEBI)  # rounded up to 1024
    snapshot.event("free_requested", 40, 3 * MEBI, 0x10000 + 8 * MEBI)
    snapshot.event("free_completed", 60, 3 * MEBI, 0x10000 + 8 * MEBI)
    snapshot.event("free_requested", 70, 2 * MEBI, 0x90000000)  # from before the first event
    snapshot.event("free_completed", 70, 2 * MEBI, 0x90000000)
    snapshot.event("oom", 80, 512 * MEBI, 100 * MEBI, frames=("forward", "main"))
    snapshot.event("free_requested", 85, 700, 0x10000 + 12 * MEBI)
    snapshot.event("free_completed", 85, 700, 0x10000 + 12 * MEBI)
    snapshot.event("snapshot", 90, 0)
    snapshot.segment(0x10000, 20 * MEBI, (8 * MEBI, 8 * MEBI, "active_allocated"), (12 * MEBI, 0, "inactive"))
    snapshot.segment(0xA0000000, 10 * MEBI, (2 * MEBI, 2 * MEBI - 100, "active_pending_free"), (8 * MEBI, 0, "inactive"))
    return snapshot


class Flight:
    """A rank's dump. Times in us behind BASE_US."""

    def __init__(self, rank, world_size=4, groups=(("0", "default_pg", None),)):
        self.rank = rank
        self.groups = [(name, description, list(range(world_size)) if ranks is None else ranks) for name, description, ranks in groups]
        self.entries = []
        self.sequence = {}
        self.status = {}

    def ask(self, name, state="completed", sizes=((4, 2),), dtype="Float", group=0, at_us=None, outputs=None, is_p2p=False, frames=True):
        key = (group, is_p2p)
        number = self.sequence[key] = self.sequence.get(key, 0) + 1
        created = (BASE_US + (len(self.entries) * 100 if at_us is None else at_us)) * 1000
        order = ("scheduled", "started", "completed").index(state)
        self.entries.append({
            "record_id": len(self.entries), "pg_id": group, "process_group": self.groups[group][:2], "thread_name": "pt_main", "thread_id": "7",
            "collective_seq_id": 0 if is_p2p else number, "p2p_seq_id": number if is_p2p else 0, "op_id": number, "profiling_name": name,
            "time_created_ns": created, "input_sizes": [list(one) for one in sizes], "input_dtypes": [dtype] * len(sizes),
            "output_sizes": [list(one) for one in (sizes if outputs is None else outputs)], "output_dtypes": [dtype] * len(sizes), "state": state,
            "time_discovered_started_ns": created + 20_000 if order > 0 else None,
            "time_discovered_completed_ns": created + 50_000 if order > 1 else None,
            "retired": order > 1, "timeout_ms": 600_000, "is_p2p": is_p2p,
            **({"frames": [{"name": "all_gather", "filename": "/site/torch/distributed/c10d.py", "line": 1},
                           {"name": "backward", "filename": "train.py", "line": 30 + number}]} if frames else {})})

    def value(self, status=True):
        value = {"version": "2.9", "comm_lib_version": "2.21.5", "pg_config":
                 {name: {"name": name, "desc": description, "ranks": str(ranks)} for name, description, ranks in self.groups}}
        if status:
            value["pg_status"] = {str(group): {
                "last_enqueued_collective": self.last(group, 0), "last_started_collective": self.last(group, 1),
                "last_completed_collective": self.last(group, 2)} for group in range(len(self.groups))}
        return {**value, "entries": self.entries}

    def last(self, group, order):
        states = ("scheduled", "started", "completed")[order:]
        return max([entry["collective_seq_id"] for entry in self.entries if entry["pg_id"] == group and entry["state"] in states
                    and not entry["is_p2p"]], default=-1)

    def json_value(self):
        """As PyTorch writes JSON: no stacks, 0 for what is not known, states of groups as text."""
        value = json.loads(json.dumps(self.value()))
        for entry in value["entries"]:
            entry.pop("frames", None)
            for key in ("time_discovered_started_ns", "time_discovered_completed_ns"):
                entry[key] = entry[key] or 0
        value["pg_status"] = {group: {key: str(number) for key, number in facts.items()} for group, facts in value["pg_status"].items()}
        return value


class LibTorchPickler:
    """Writes values as LibTorch's own pickler does (torch/csrc/jit/serialization/pickler.cpp): protocol 2, texts and containers in the memo,
    four-byte numbers of the memo above 255, dictionaries and lists filled between a mark and SETITEMS or APPENDS."""

    def __init__(self):
        self.out = bytearray(b"\x80\x02")
        self.texts = {}
        self.shared = {}
        self.kept = []  # so that no other object gets the id
        self.count = 0

    def put(self):
        self.out += b"q" + bytes([self.count]) if self.count < 256 else b"r" + struct.pack("<I", self.count)
        self.count += 1
        return self.count - 1

    def get(self, number):
        self.out += b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number)

    def push(self, value):
        if isinstance(value, str):
            if value in self.texts:
                return self.get(self.texts[value])
            data = value.encode()
            self.out += b"X" + struct.pack("<I", len(data)) + data
            self.texts[value] = self.put()
        elif value is None:
            self.out += b"N"
        elif isinstance(value, bool):
            self.out += b"\x88" if value else b"\x89"
        elif isinstance(value, int):
            small = -2**31 <= value < 2**31
            if 0 <= value < 256:
                self.out += b"K" + bytes([value])
            elif 0 <= value < 65536:
                self.out += b"M" + struct.pack("<H", value)
            else:
                self.out += b"J" + struct.pack("<i", value) if small else b"\x8a\x08" + struct.pack("<q", value)
        elif isinstance(value, float):
            self.out += b"G" + struct.pack(">d", value)
        elif isinstance(value, tuple):
            self.out += b"("
            for one in value:
                self.push(one)
            self.out += b"t"
            self.put()
        elif id(value) in self.shared:
            self.get(self.shared[id(value)])
        else:
            self.out += b"}" if isinstance(value, dict) else b"]"
            self.shared[id(value)] = self.put()
            self.kept.append(value)
            self.out += b"("
            for one in value.items() if isinstance(value, dict) else value:
                if isinstance(value, dict):
                    self.push(one[0])
                    self.push(one[1])
                else:
                    self.push(one)
            self.out += b"u" if isinstance(value, dict) else b"e"
        return None

    def bytes_of(self, value):
        self.push(value)
        return bytes(self.out + b".")


def forms(value, json_value=None):
    """Name -> the bytes of a file that holds the value, in every form that PyTorch or Python writes."""
    made = {f"protocol{protocol}": pickle.dumps(value, protocol=protocol) for protocol in (2, 3, 4, 5)}
    made["libtorch"] = LibTorchPickler().bytes_of(value)
    made["json"] = json.dumps(value if json_value is None else json_value).encode()
    return made
