"""Makes SQLite exports of Nsight Systems whose figures are known beforehand."""

import sqlite3
import struct

START_NS = 1_700_000_000_000_000_000  # of the session
NCCL_DOMAIN = 1
COMMUNICATOR = 0xF00D_0000_0000_BEEF  # above what a signed number holds
VERSIONS = {2022: ("2022.2.1.31", "2.9.1"), 2026: ("2026.2.1.210", "3.25.0")}

# The columns that both versions have, and those that only the newer one has.
TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": ("start end deviceId contextId streamId correlationId globalPid demangledName shortName mangledName "
                                   "registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory graphNodeId",
                                   "greenContextId graphId"),
    "CUPTI_ACTIVITY_KIND_MEMCPY": ("start end deviceId contextId streamId correlationId globalPid bytes copyKind srcKind dstKind graphNodeId",
                                   "greenContextId"),
    "CUPTI_ACTIVITY_KIND_MEMSET": ("start end deviceId contextId streamId correlationId globalPid value bytes memKind graphNodeId", "greenContextId"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start end eventClass globalTid correlationId nameId returnValue callchainId", ""),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": ("start end deviceId contextId streamId correlationId globalPid graphId graphExecId", "greenContextId"),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ("start end deviceId contextId streamId correlationId globalPid syncType eventId",
                                            "greenContextId eventSyncId"),
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": ("deviceId contextId streamId correlationId globalPid eventId", "timestamp eventSyncId"),
    "CUDA_GPU_MEMORY_USAGE_EVENTS": ("start globalPid deviceId contextId address bytes memKind memoryOperationType", "streamId"),
    "NVTX_EVENTS": ("start end eventType rangeId category color text globalTid endGlobalTid textId domainId uint64Value int64Value doubleValue "
                    "uint32Value int32Value floatValue", "jsonTextId jsonText binaryData"),
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": ("", "domainId schemaId idx flags type name description arrayOrUnionDetail offset"),
    "OSRT_API": ("start end eventClass globalTid nameId returnValue nestingLevel callchainId", ""),
    "PROFILER_OVERHEAD": ("start end globalTid nameId returnValue", ""),
    "SCHED_EVENTS": ("start cpu isSchedIn globalTid", ""),
    "DIAGNOSTIC_EVENT": ("timestamp timestampType source severity text globalPid", ""),
    "ThreadNames": ("nameId priority globalTid", ""),
    "TARGET_INFO_GPU": ("id name", ""),
    "TARGET_INFO_CUDA_DEVICE": ("gpuId cudaId pid", ""),
    "TARGET_INFO_CUDA_STREAM": ("streamId processId contextId priority flag", ""),
    "TARGET_INFO_SYSTEM_ENV": ("globalVid devStateName name nameEnum value", ""),
    "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs utcTime localTime", "systemClockNs"),
}
INIT, COLLECTIVE, PEER = 101, 102, 103  # ids of schemas
INT, UINT64, SIZE = 5, 18, 22  # of nvToolsExtPayload.h
SCHEMAS = {INIT: (("NCCL communicator ID", UINT64, None), ("No. of ranks", INT, 8), ("Rank", INT, 12), ("CUDA device", INT, 16)),
           COLLECTIVE: (("NCCL communicator ID", UINT64, None), ("Message size [bytes]", SIZE, 8)),
           PEER: (("NCCL communicator ID", UINT64, None), ("Message size [bytes]", SIZE, 8), ("Peer rank", INT, 16))}


def payload(schema, layout, *values):
    body = struct.pack(layout, *values)
    body += bytes(-len(body) % 8)
    return struct.pack("<QQQQ", NCCL_DOMAIN, schema, len(body), 32 + len(body)) + body


class Export:
    """A file with any number of processes. Tables that stay empty are not there, as in what `nsys export` writes."""

    def __init__(self, version=2026, start_ns=START_NS):
        self.version = version
        self.rows = {}
        self.texts = {}
        product, schema = VERSIONS[version]
        self.values = {"EXPORT_PRODUCT_VERSION": product, "EXPORT_SCHEMA_VERSION": schema}
        if start_ns:
            self.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=start_ns)
        self.add("TARGET_INFO_SYSTEM_ENV", name="Hostname", value="node7", devStateName="", nameEnum=0)
        self.add("TARGET_INFO_GPU", id=0, name="NVIDIA H100 80GB HBM3")
        if version > 2022:
            for schema_id, entries in SCHEMAS.items():
                for index, (name, kind, offset) in enumerate(entries):
                    self.add("NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=NCCL_DOMAIN, schemaId=schema_id, idx=index, type=kind, name=name, offset=offset)

    def columns(self, table):
        old, new = TABLES[table]
        return (old + " " + new).split() if self.version > 2022 else old.split()

    def add(self, table, **values):
        known = self.columns(table)
        self.rows.setdefault(table, []).append(tuple(values.get(column) for column in known))

    def text(self, value):
        return self.texts.setdefault(value, len(self.texts) + 1)

    def write(self, path, page_bytes=4096):
        path.unlink(missing_ok=True)
        database = sqlite3.connect(path)
        database.execute(f"PRAGMA page_size = {page_bytes}")
        meta = "META_DATA_EXPORT" if self.version > 2022 else "EXPORT_META_DATA"
        database.execute(f"CREATE TABLE {meta} (name TEXT NOT NULL, value TEXT)")
        database.executemany(f"INSERT INTO {meta} VALUES (?, ?)", self.values.items())
        database.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", ((number, text) for text, number in self.texts.items()))
        for table, rows in self.rows.items():
            columns = self.columns(table)
            names = ", ".join(f'"{column}"' for column in columns)
            database.execute(f"CREATE TABLE {table} ({names})")
            # Nothing says that rows are sorted.
            database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", reversed(rows))
        database.commit()
        database.close()
        return path


class Process:
    """A process of an Export, with the methods of chrome_traces.Trace. Correlation ids are those of the process: each begins at 1."""

    def __init__(self, export, process=100, device=0, rank=None, num_ranks=2):
        self.export = export
        self.process = process
        self.global_pid = 1 << 48 | process << 24
        self.device = device
        self.num_ranks = num_ranks
        self.num_calls = 0
        export.add("TARGET_INFO_CUDA_STREAM", streamId=20, processId=process, contextId=1, priority=-5, flag=1)
        self.name_thread(1, "python3")
        if export.version > 2022:
            self.nvtx("NCCL", 0, None, event_type=75, domain=NCCL_DOMAIN)
            if rank is not None:
                self.nvtx("ncclCommInitRank", -900, -100, domain=NCCL_DOMAIN,
                          binaryData=payload(INIT, "<Qiii", COMMUNICATOR, num_ranks, rank, device))

    def tid(self, thread):
        return self.global_pid | thread

    def name_thread(self, thread, name):
        self.export.add("ThreadNames", nameId=self.export.text(name), priority=20, globalTid=self.tid(thread))

    def nvtx(self, name, start_us, end_us, thread=1, event_type=59, domain=0, registered=False, **values):
        self.export.add("NVTX_EVENTS", start=round(start_us * 1000), end=None if end_us is None else round(end_us * 1000), eventType=event_type,
                        globalTid=self.tid(thread), domainId=domain, text=None if registered else name,
                        textId=self.export.text(name) if registered else None, **values)

    def host(self, name, start_us, end_us, thread=1, category="user_annotation"):
        # emit_nvtx() writes operators with their numbers, each another text.
        if category == "cpu_op":
            name = f"{name}, seq = {start_us}, op_id = {start_us}"
        self.nvtx(name, start_us, end_us, thread, registered=category == "cpu_op")

    def call(self, name, launched_us, thread=1, length_ns=2500):
        self.num_calls += 1
        self.export.add("CUPTI_ACTIVITY_KIND_RUNTIME", start=round(launched_us * 1000), end=round(launched_us * 1000) + length_ns, eventClass=0,
                        globalTid=self.tid(thread), correlationId=self.num_calls, nameId=self.export.text(name), returnValue=0)
        return self.num_calls

    def place(self, stream, start_us, end_us, correlation):
        return {"start": round(start_us * 1000), "end": round(end_us * 1000), "deviceId": self.device, "contextId": 1, "streamId": stream,
                "correlationId": correlation, "globalPid": self.global_pid}

    def work(self, name, stream, launched_us, start_us, end_us, thread=1):
        correlation = self.call("cudaLaunchKernel_v7000", launched_us, thread)
        self.export.add("CUPTI_ACTIVITY_KIND_KERNEL", **self.place(stream, start_us, end_us, correlation), demangledName=self.export.text(name),
                        shortName=self.export.text(name[:8]), gridX=4, gridY=2, gridZ=1, blockX=128, blockY=1, blockZ=1, registersPerThread=32,
                        staticSharedMemory=1024, dynamicSharedMemory=512)

    def collective(self, kind, stream, launched_us, start_us, end_us, elements, sequence, thread=1):
        name = {"_allgather_base": "AllGather", "_reduce_scatter_base": "ReduceScatter"}[kind]
        if self.export.version > 2022:
            self.nvtx("nccl" + name, launched_us - 1, launched_us + 4, thread, domain=NCCL_DOMAIN,
                      binaryData=payload(COLLECTIVE, "<QQ", COMMUNICATOR, 4 * elements // self.num_ranks))
        suffix = "_Sum_f32" if name == "ReduceScatter" else ""
        self.work(f"ncclDevKernel_{name}{suffix}_RING_LL(ncclDevKernelArgsStorage<4096ul>)", stream, launched_us, start_us, end_us, thread)
