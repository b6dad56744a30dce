"""The one description of all trace tables: source of the DDL, the C++ row structs, docs/trace.md and the views.

Every column has a type, a unit (where it has one) and a sentence. `trace/schema/generate.py` turns this file into code at
build time; nothing else lists columns. Tables marked STREAM are written row by row while a run is live and may be large.
"""

import dataclasses
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "base"))
from words import listed, listed_collectives  # noqa: E402

# Goes up with every change. A new table says since which version it exists: older traces are read as if it were empty
# there. Tables of older versions never change.
SCHEMA_VERSION = 9
# 'SHSC' as big-endian bytes: SQLite's application_id, shown by `file trace.db`.
APPLICATION_ID = 0x53485343

INT = "INTEGER"
REAL = "REAL"
TEXT = "TEXT"
BLOB = "BLOB"  # bytes that trace/store alone writes and reads: a row struct has them as a string


# What of a table belongs to some steps of a run: its rows there are read and kept (store::FinishedSource, query::PartFilter) where
# memory is too small for all steps.
PART_RULES = {
    "all": "all rows",
    "steps": "those of these steps (column step), whose range of ids table step_range has",
    "between_steps": "those in front of one of these steps (column step) but for the first",
    "time": "those of their time, by the column by which rows are ordered (time)",
    "markers": "those of their time, errors, and what was changed before",
    "memory": "those of their time, and what was held when they began",
    "segments": "those until they end, of which the ones before as if at their begin",
    "spans": "those that begin in their time",
    "beside_spans": "those whose span, of the same id, does",
}


@dataclasses.dataclass(frozen=True)
class Column:
    name: str
    type: str
    doc: str
    unit: str = ""
    # Table whose id this column holds, of that table's type; -1 where the doc says "none". Merging files of one run shifts these.
    references: str = ""
    # A moment on the clock of the process that wrote it. Merging files of one run puts these on one clock.
    moment: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    name: str
    doc: str
    columns: tuple
    stream: bool = False
    # Recorded by the threads that train: its row struct holds text inline (schema::ShortText), never on the heap. Such a
    # table says how a row of it is recorded, unless it comes only as the second row of a pair (PAIRS).
    hot: bool = False
    # Hot: rows of all threads are committed in the order of this column, as far as one batch goes.
    time: str = ""
    # Hot: made some time after what they tell of, perhaps on another thread: the window in force then is not theirs.
    late: bool = False
    # Hot: source of table capability under which lost rows are counted; empty: that of the recorder.
    source: str = ""
    # Hot: every row is part of one step (column step), and goes with it where a trace of bounded size removes it.
    per_step: bool = False
    # One of PART_RULES. A table that is written row by row (stream) says it, unless only SQL asks for it; others are read whole.
    part: str = ""
    # Only SQL asks for it: no Snapshot has its rows.
    sql_only: bool = False
    # Made from the others while a trace is finished; empty while it is live, and never read as a part of several files.
    derived: bool = False
    # Indexes of a finished trace, each a tuple of columns.
    indexes: tuple = ()
    # How finished traces before version 4 kept the table: in the order of these columns, with these indexes.
    clustered_before_4: tuple = ()
    indexes_before_4: tuple = ()
    # The schema version that brought it.
    since: int = 1


@dataclasses.dataclass(frozen=True)
class Pair:
    """Rows of two hot tables that are recorded as one. Time, lateness and source are those of the first."""
    name: str
    doc: str
    # Field of the C++ struct, and table.
    first: tuple
    second: tuple
    # Column of the second that holds the id of the first. Where it is "id", both rows have the same.
    link: str
    # Column of the second; where it is empty there is no second row.
    second_if: str = ""


def key(doc):
    return Column("id", INT, doc)


def ref(name, table, doc=""):
    return Column(name, INT, doc or f"{table}.id", references=table)


def moment(name, doc):
    return Column(name, INT, doc, "ns", moment=True)

TABLES = (
    Table("meta", "Key and value: what this trace is.", (
        Column("key", TEXT, "run_id, name, state (live, finishing, finished, cut), tool_version, host, pid, model, "
                            "num_ranks, num_cores, device, truth, contended, source_path, started_realtime_ns, cupti_device_bytes (what CUPTI "
                            "takes at least of each GPU's memory); of a run that went on from a checkpoint resumed_run (run_id of the "
                            "run that wrote it), resumed_step and resumed_from (its folder); of one that does not train all of its "
                            "parameters how many there are (parameters), how many it trains (trained_parameters), and the bytes of "
                            "gradients and of optimizer state that a rank does not keep (spared_gradient_bytes, "
                            "spared_optimizer_bytes), as it began; ..."),
        Column("value", TEXT, "The value as text; numbers in decimal."),
    )),
    Table("capability", "What each source of records could and could not do in this run, and what it lost.", (
        key("Commit order."),
        Column("source", TEXT, "engine, memory, nvtx, cupti, ..."),
        Column("status", TEXT, f"{listed('CapabilityStatus')}."),
        Column("reason", TEXT, "Why it is not fully on; empty if it is."),
        Column("dropped", INT, "Records lost so far; rows of one source add up.", "records"),
    )),
    Table("clock", "Pairs of clock readings, once a second.", (
        key("Commit order."),
        moment("monotonic_ns", "CLOCK_MONOTONIC."),
        Column("realtime_ns", INT, "CLOCK_REALTIME read at the same moment.", "ns"),
        Column("uncertainty_ns", INT, "How far apart the two readings can be.", "ns"),
    )),
    Table("config", "Every configuration key with the value in force at the start of the run.", (
        Column("key", TEXT, "Dotted name, as in run.toml."),
        Column("value", TEXT, "Canonical text of the value."),
    )),
    Table("rank", "The ranks recorded in this file.", (
        Column("rank", INT, "Global rank."),
        Column("host", TEXT, "Host name."),
        Column("pid", INT, "Process id."),
        Column("device", TEXT, "cpu, or the name of the GPU."),
    )),
    Table("track", "Sources of ordered events: the streams and host threads of each rank.", (
        key("Referenced by span, op_run and counter."),
        Column("rank", INT, "rank.rank"),
        Column("name", TEXT, "host, compute, all_gather, reduce_scatter, ..."),
        Column("role", TEXT, f"What it is for, which is the lane that its ops are drawn in: {listed('TrackRole')}."),
        Column("position", INT, "Order of the tracks of a rank. Lanes of threads stand in it, from the top; those of ops by role."),
    )),
    Table("string", "Interned text.", (
        key("Referenced by columns named *_string."),
        Column("text", TEXT, "UTF-8."),
    )),
    Table("schedule", "Every Schedule that ran, in its text form.", (
        key("Referenced by plan_op, plan_edge and step."),
        Column("name", TEXT, "For people."),
        Column("text", TEXT, "The text form (docs/schedule.md)."),
        Column("predicted_peak_bytes", INT, "Peak of the rank that needs most, as the Schedule itself predicts it: in issue order, "
                                           "without temporaries and what no op lists.", "bytes"),
    )),
    Table("schedule_bound", "Beside every schedule, what a rank can hold at most while it runs.", (
        key("Commit order."),
        ref("schedule", "schedule"),
        Column("executed_peak_bytes", INT, "Bound of the executed peak of the rank that needs most, over all orders that streams, waits "
                                           "and the host allow: buffers, gaps that align them, temporaries, and tables that ranks of "
                                           "a process share. On a GPU temporaries are estimates.", "bytes"),
    ), since=4),
    Table("rank_peak", "Beside every schedule, what each of its ranks takes: stages of a pipeline need more or less than others.", (
        key("Commit order."),
        ref("schedule", "schedule"),
        Column("rank", INT, "rank.rank"),
        Column("predicted_peak_bytes", INT, "As of the schedule, of this rank.", "bytes"),
        Column("executed_peak_bytes", INT, "As of the schedule_bound, of this rank. Shared tables are with the first rank of a process.", "bytes"),
    ), since=5),
    Table("communicator_group", "The groups of ranks in which each communicator of every Schedule meets.", (
        key("Commit order."),
        ref("schedule", "schedule"),
        Column("communicator", TEXT, "As collective.communicator: its name, and its group where there are several."),
        Column("dimensions", TEXT, f"Of the mesh: ranks of a group differ along these alone. Each is {listed('MeshDimension')}."),
        Column("number", INT, "Of the group, from 0."),
        Column("members", TEXT, "Its ranks, ascending: 0,2. The sends and receives of a pair are among them."),
    ), since=5),
    Table("plan_op", "The ops of every Schedule, per program: an op's key is (schedule, program, op).", (
        key("Referenced by op_run and plan_edge."),
        ref("schedule", "schedule"),
        Column("program", INT, "Which of the Schedule's programs; symmetric ones have only 0."),
        Column("op", INT, "Index in the host order of its program."),
        Column("name", TEXT, "'B m0 block3 all_gather': for people, may repeat."),
        Column("kind", TEXT, f"{listed('OpKind')}."),
        Column("category", TEXT, f"{listed('Category')}."),
        Column("phase", TEXT, f"{listed('Phase')}."),
        Column("micro_batch", INT, "-1: belongs to the whole step."),
        Column("unit", TEXT, "Name of the unit; empty if none."),
        Column("segment", TEXT, "Name of the segment; empty if none."),
        Column("stream", TEXT, "Name of the stream it is issued on."),
        Column("communicator", TEXT, "Name of the communicator; empty if no collective."),
        Column("dtype", TEXT, "Of a collective's payload; empty if no collective."),
        Column("payload_bytes", INT, "Unsharded bytes of a collective.", "bytes"),
        Column("wire_bytes", INT, "Bytes that each rank sends.", "bytes"),
    )),
    Table("plan_edge", "The explicit dependencies of plan ops.", (
        key("Referenced by nothing."),
        ref("plan_op", "plan_op", "The op that waits: plan_op.id"),
        ref("predecessor", "plan_op", "The op whose end it waits for: plan_op.id"),
        Column("kind", TEXT, f"{listed('DependencyKind')}."),
    )),
    Table("step", "One row per rank and step.", (
        key("Commit order."),
        Column("rank", INT, "rank.rank"),
        Column("step", INT, "Numbered from 0."),
        ref("schedule", "schedule"),
        moment("start_ns", "End of the rank's previous step, or of the pause after it; for the first, issue of its first op."),
        moment("end_ns", "End of the rank's last op of this step, optimizer included."),
        Column("tokens", INT, "Tokens this rank trained on in this step.", "tokens"),
        Column("loss", REAL, "This rank's part of the step's loss: the sum over its tokens that count, by the tokens that count of all ranks, times "
                             "the ranks that have a loss. Their mean is the step's loss. Where all tokens count, it is the mean over this rank's tokens; where none counts, 0.", "nats"),
        Column("grad_norm", REAL, "Global norm of the gradient before clipping."),
    ), stream=True, hot=True, part="steps", time="end_ns", per_step=True),
    Table("op_run", "One execution of a plan op.", (
        key("Commit order."),
        ref("plan_op", "plan_op"),
        Column("rank", INT, "rank.rank"),
        Column("step", INT, "step.step; below -1: a batch of an evaluation (evaluation.first_batch)."),
        ref("track", "track"),
        moment("issued_ns", "The host put it on its stream."),
        moment("ready_ns", "Its last dependency was done."),
        moment("started_ns", "It began; a collective: this rank arrived; a receive: the sender arrived, where that is known."),
        moment("ended_ns", "It ended."),
        Column("slot_wait_ns", INT, "Part of started - ready spent waiting for a compute slot.", "ns"),
        Column("cpu_ns", INT, "CPU time of the thread that ran it.", "ns"),
        ref("blocking_plan_op", "plan_op", "plan_op.id of the dependency that was done last; -1: it was ready when issued."),
        Column("blocking_kind", TEXT, f"{listed('BlockingKind')}."),
    ), stream=True, hot=True, part="steps", time="ended_ns", per_step=True, clustered_before_4=("track", "started_ns"),
        indexes_before_4=(("plan_op", "rank", "step"),)),
    Table("span", "Intervals that are no op: kernels, NVTX ranges, host waits.", (
        key("Commit order."),
        ref("track", "track"),
        moment("start_ns", "Start."),
        Column("duration_ns", INT, "Duration.", "ns"),
        ref("name_string", "string"),
        Column("category", TEXT, f"{listed('SpanCategory')}."),
        ref("op_run", "op_run", "op_run.id it belongs to; -1 if none, or if gpu_work names the op."),
    ), stream=True, hot=True, part="spans", time="start_ns", late=True, indexes=(("track", "start_ns"),), clustered_before_4=("track", "start_ns")),
    Table("collective", "One row per rank and collective, joined to its op run.", (
        key("Commit order."),
        ref("op_run", "op_run"),
        Column("rank", INT, "rank.rank"),
        Column("step", INT, "As op_run.step."),
        Column("communicator", TEXT, "Name of the communicator, and its group: shard/1; of a send or receive its ranks: activation/0>1."),
        Column("sequence", INT, "Counts the collectives of this communicator; equal on all ranks."),
        Column("kind", TEXT, f"{listed_collectives()}."),
        Column("payload_bytes", INT, "Unsharded bytes.", "bytes"),
        Column("wire_bytes", INT, "Bytes that this rank sends.", "bytes"),
        Column("dtype", TEXT, f"{listed('DType')}."),
        Column("group_size", INT, "Ranks that meet."),
        Column("transport", TEXT, "shared_memory, emulated, ..."),
        Column("truth", TEXT, f"{listed('Truth')}."),
    ), stream=True, hot=True, part="steps", per_step=True, indexes_before_4=(("op_run",), ("communicator", "sequence"))),
    Table("flow", "Arrows between spans that no plan edge gives.", (
        key("Commit order."),
        ref("from_span", "span"),
        ref("to_span", "span"),
        ref("name_string", "string"),
    ), stream=True, sql_only=True),
    Table("counter", "Values over time that are not memory of a category. At the end of every step, on the rank's host track: "
                     "allocated_bytes (what its allocators handed out; the sum of its memory events up to then), reserved_bytes (what "
                     "they hold from the system), once a process resident_bytes and once a GPU device_used_bytes (of its memory by anybody: beyond "
                     "memory_segment those are contexts, what CUPTI misses, and other processes), learning_rate, and with a gradient scaler loss_scale. In a recorded program: reserved_bytes of PyTorch's "
                     "caching allocator, whenever it changes.", (
        key("Commit order."),
        ref("track", "track"),
        moment("time_ns", "When it was read."),
        ref("name_string", "string"),
        Column("value", REAL, "In the unit that the name says."),
    ), stream=True, hot=True, part="time", time="time_ns"),
    Table("memory_event", "Every allocation (positive) and free (negative), in both ledgers.", (
        key("Commit order."),
        Column("rank", INT, "rank.rank"),
        Column("device", TEXT, "cpu or the GPU."),
        moment("issued_ns", "When the host issued it: what an allocator would report."),
        moment("executed_ns", "When it took effect: what is really live."),
        Column("bytes", INT, "Signed.", "bytes"),
        Column("category", TEXT, f"{listed('MemoryCategory', last='in a recorded program, unattributed')}."),
        Column("unit", TEXT, "Unit or segment; empty if none."),
        ref("plan_op", "plan_op", "plan_op.id that caused it; -1 if none."),
        Column("step", INT, "As op_run.step; -1: outside of ops."),
    ), stream=True, hot=True, part="memory", time="executed_ns", source="memory", clustered_before_4=("rank", "executed_ns")),
    Table("marker", "Moments worth a dashed line: changed knobs, pauses, checkpoints, errors.", (
        key("Commit order."),
        moment("time_ns", "When."),
        Column("step", INT, "First step it applies to."),
        Column("kind", TEXT, f"{listed('MarkerKind')}."),
        Column("key", TEXT, "The configuration key of a change; scaler of a skip; else empty."),
        Column("old_value", TEXT, "Before: the value of the key, or the loss scale of a skip; else empty."),
        Column("new_value", TEXT, "After, or the text of the note."),
    ), stream=True, part="markers"),
    Table("gpu_stream", "The CUDA streams on which the GPU worked, each with its track.", (
        key("Commit order."),
        ref("track", "track", "track.id of its kernels and copies"),
        ref("op_track", "track", "track.id of the ops that are issued on it; -1 if none are known."),
        Column("device", INT, "Number of the GPU."),
        Column("context", INT, "CUPTI's number of the CUDA context."),
        Column("stream", INT, "CUPTI's number of the stream; unique in its context only."),
        Column("priority", INT, "Of the stream; lower goes first. 0 if not told."),
    ), since=2),
    Table("gpu_work", "What the GPU did: one row a kernel, copy or memset, beside its span (same id) on the track of its stream.", (
        Column("id", INT, "span.id: when, what, and on which track.", references="span"),
        Column("kind", TEXT, f"{listed('GpuWorkKind')}."),
        Column("times", TEXT, f"{listed('GpuTimes')}."),
        ref("plan_op", "plan_op", "plan_op.id of the op that launched it; its op run is the one of this plan op, the track's rank and "
                                  "the step. -1: no op."),
        Column("step", INT, "step.step; -1 if no op launched it."),
        ref("launch_track", "track", "track.id of the thread that launched it; -1: the call was not recorded."),
        moment("launch_start_ns", "The call that launched it began; the start of the work if the call was not recorded."),
        Column("launch_duration_ns", INT, "Duration of that call.", "ns"),
        Column("correlation", INT, "CUPTI's id of that call (of the work, if the call was not recorded): unique in the process until "
                                   "it has counted through 32 bits."),
        Column("bytes", INT, "What a copy or memset moved; 0 for kernels.", "bytes"),
        Column("grid_x", INT, "Blocks of a kernel along x; 0 for copies, as all that follows but the channel.", "blocks"),
        Column("grid_y", INT, "Along y.", "blocks"),
        Column("grid_z", INT, "Along z.", "blocks"),
        Column("block_x", INT, "Threads of a block along x.", "threads"),
        Column("block_y", INT, "Along y.", "threads"),
        Column("block_z", INT, "Along z.", "threads"),
        Column("cluster_x", INT, "Blocks of a cluster along x; 0: not launched in clusters.", "blocks"),
        Column("cluster_y", INT, "Along y.", "blocks"),
        Column("cluster_z", INT, "Along z.", "blocks"),
        Column("registers", INT, "Per thread."),
        Column("static_shared_bytes", INT, "Shared memory of a block that the kernel declares.", "bytes"),
        Column("dynamic_shared_bytes", INT, "Shared memory of a block that the launch asked for.", "bytes"),
        Column("channel", INT, "Hardware queue: streams that share one wait for each other."),
        Column("channel_kind", TEXT, f"{listed('ChannelKind')}."),
        Column("graph", INT, "CUDA graph that launched it; 0: none."),
        Column("graph_node", INT, "Its node in that graph; 0: none."),
    ), stream=True, hot=True, part="beside_spans", indexes=(("correlation",), ("launch_track", "launch_start_ns")),
        indexes_before_4=(("correlation",), ("launch_track", "launch_start_ns")), since=2),
    Table("event_edge", "One row where a stream waited for an event of another, as CUPTI saw it. The waited-for recording is told apart "
                        "from later ones of the same event.", (
        key("Commit order."),
        Column("recording", INT, "CUPTI's id of that one recording of the event (cudaEventSyncId)."),
        ref("from_track", "track", "Track of the stream that recorded."),
        ref("to_track", "track", "Track of the stream that waited."),
        Column("from_correlation", INT, "gpu_work.correlation of the last work before the recording; -1: none was recorded."),
        Column("to_correlation", INT, "gpu_work.correlation of the first work after the wait; -1: none was recorded."),
        moment("recorded_ns", "When the recording was reached on its stream; waited_ns if that is not known."),
        moment("waited_ns", "When the host asked for the wait."),
        ref("from_plan_op", "plan_op", "The op of the work before; -1 if none."),
        Column("from_step", INT, "Its step; -1 if none."),
        ref("to_plan_op", "plan_op", "The op of the work after; -1 if none."),
        Column("to_step", INT, "Its step; -1 if none."),
    ), stream=True, hot=True, part="time", time="waited_ns", late=True, since=2),
    Table("memory_segment", "Memory that the CUDA driver handed out (positive) and took back (negative): what allocators divide further "
                            "(memory_event), and what others in the process took.", (
        key("Commit order."),
        Column("rank", INT, "rank.rank"),
        Column("device", INT, "Number of the GPU."),
        moment("time_ns", "When the driver did it."),
        Column("address", INT, "Where it begins."),
        Column("bytes", INT, "Signed.", "bytes"),
        Column("kind", TEXT, f"{listed('MemorySegmentKind')}."),
        Column("correlation", INT, "CUPTI's id of the call; 0 if none."),
    ), stream=True, hot=True, part="segments", time="time_ns", late=True, since=2),
    Table("nccl_operation", "What NCCL put on a stream, as its profiler interface tells: one row a collective, send or receive, beside its "
                            "span (same id) on the track of its communicator. The span is the host's time.", (
        Column("id", INT, "span.id: when the host put it there.", references="span"),
        Column("communicator", TEXT, "Its hash in hexadecimal digits; equal in all its processes."),
        Column("communicator_rank", INT, "This process's rank in the communicator."),
        Column("group_size", INT, "Ranks in the communicator."),
        Column("function", TEXT, "AllGather, ReduceScatter, AllReduce, Broadcast, Send, Recv, ..."),
        Column("sequence", INT, "Counts the collectives of a communicator; equal on all its ranks. -1: a send or receive."),
        Column("count", INT, "Elements, as the call gave them."),
        Column("dtype", TEXT, "NCCL's name of their type."),
        Column("bytes", INT, "Bytes of those elements; -1: NCCL named a type that is not known.", "bytes"),
        Column("peer", INT, "Root of a collective, or the other side of a send or receive."),
        Column("algorithm", TEXT, "As NCCL chose it; empty for sends and receives, as what follows."),
        Column("protocol", TEXT, "As NCCL chose it."),
        Column("channels", INT, "NCCL's channels: the blocks of its kernel."),
        ref("launch_track", "track", "track.id of the thread that launched its kernel; -1: not told. Kernels with this launch_track whose "
                                     "launch began in this time are its own."),
        moment("launch_start_ns", "NCCL began to launch its kernel; the start of the span if not told."),
        Column("launch_duration_ns", INT, "How long that took.", "ns"),
    ), stream=True, hot=True, part="beside_spans", indexes=(("communicator", "sequence"),), indexes_before_4=(("communicator", "sequence"),), since=2),
    Table("gpu_clock", "How far the times of a GPU can be off against the host's, at most once a second. No work begins before the host "
                       "asked for it, and none ends after the host saw it done: what has to be added to the GPU's times lies between "
                       "low_ns and high_ns. As long as 0 lies between them nothing contradicts the times as they are.", (
        key("Commit order."),
        Column("rank", INT, "rank.rank"),
        Column("device", INT, "Number of the GPU."),
        Column("method", TEXT, f"{listed('GpuClockMethod')}."),
        moment("time_ns", "The last of the waits."),
        Column("low_ns", INT, "At least this much has to be added.", "ns"),
        Column("high_ns", INT, "At most this much.", "ns"),
        Column("works", INT, "Kernels and copies looked at."),
        Column("waits", INT, "Waits of the host for a stream."),
    ), since=3),
    Table("overhead_step", "What recording costs, measured by the run itself (record.measure_overhead): now and then a step is not recorded, "
                           "and is timed beside recorded ones. Only steps that were timed have rows; of those that were not recorded "
                           "there is nothing else in the trace. v_overhead has the result.", (
        key("Commit order."),
        Column("round", INT, "Steps that are compared with each other: one without recording between two with it."),
        Column("rank", INT, "rank.rank"),
        Column("step", INT, "step.step"),
        Column("recorded", INT, "1: recorded as every other step; 0: not recorded."),
        moment("start_ns", "All ranks had begun the step, and recording was on or off."),
        Column("duration_ns", INT, "From then to the begin of the next step.", "ns"),
    ), since=3),
    Table("pause", "Time between two steps of a rank, in neither of them: not training, but waiting for the user, or what a checkpoint or a "
                   "change of knobs takes. Written when it is over; what is still open has only its marker.", (
        key("Commit order."),
        Column("rank", INT, "rank.rank"),
        Column("step", INT, "The step before which it was."),
        Column("cause", TEXT, f"{listed('PauseCause')}."),
        moment("start_ns", "End of the step before."),
        moment("end_ns", "Start of the step after."),
    ), stream=True, part="between_steps", since=4),
    Table("checkpoint", "What a rank's part of each checkpoint took: the copy, for which the training waits, and the file, which is written "
                        "while the next steps run. Written once the file is on the disk or given up; a marker says when all of the "
                        "checkpoint was.", (
        key("Commit order."),
        Column("rank", INT, "rank.rank"),
        Column("step", INT, "The step before which it was taken."),
        moment("start_ns", "The rank, between two steps, came to it."),
        moment("copy_ns", "The checkpoint before was written, and the copy began."),
        moment("copied_ns", "The copy was made: the training goes on."),
        moment("written_ns", "The file was on the disk, or given up."),
        Column("bytes", INT, "Of the file; 0 if it was given up.", "bytes"),
        Column("error", TEXT, "Why it was given up; else empty."),
    ), stream=True, part="between_steps", since=8),
    Table("evaluation", "One row a rank and evaluation: forwards over held-out data, between two steps and in neither, as a pause of that cause. "
                        "Its op runs have steps below -1.", (
        key("Commit order."),
        Column("rank", INT, "rank.rank"),
        Column("step", INT, "The step before which it was: as many were trained."),
        ref("schedule", "schedule"),
        Column("first_batch", INT, "op_run.step of its first batch; each that follows has one less."),
        Column("batches", INT, "Times that its schedule ran."),
        moment("start_ns", "The rank began with it."),
        moment("end_ns", "It knew the loss of all ranks."),
        Column("tokens", INT, "Of all ranks, that the loss counts.", "tokens"),
        Column("loss", REAL, "Mean over these; the same in the rows of all ranks.", "nats"),
    ), stream=True, part="between_steps", since=8),
    Table("allocation", "One row a block that PyTorch's caching allocator handed out in a recorded program, written once it was back or "
                        "recording ended. Its memory_event rows have the same times: from allocated_ns to free_requested_ns by the host's "
                        "order, to free_completed_ns as it was.", (
        key("Commit order."),
        Column("rank", INT, "rank.rank"),
        Column("device", INT, "Number of the GPU."),
        Column("stream", INT, "The CUDA stream that it was allocated for, as the process knows it (cudaStream_t); 0: the default one."),
        Column("address", INT, "Where it begins."),
        Column("requested_bytes", INT, "What the program asked for.", "bytes"),
        Column("block_bytes", INT, "What the allocator gave: rounded up, or a larger block that was not worth splitting.", "bytes"),
        moment("allocated_ns", "Handed out."),
        moment("free_requested_ns", "Given back by the program; the end of recording if it was not."),
        moment("free_completed_ns", "No stream used it any more (record_stream), and it could be handed out again; the end of recording if "
                                    "that was later. What lies between the two is held for streams only."),
        Column("state", TEXT, f"{listed('AllocationState')}."),
        ref("track", "track", "track.id of the thread that asked for it"),
        ref("range_string", "string", "The innermost range of PyTorch that was open on that thread: string.id; -1: none."),
        Column("unit", TEXT, "Unit of FSDP whose range, forward or backward it was; empty: none, or the root."),
        Column("phase", TEXT, f"{listed('Phase')}; empty: not known."),
        Column("category", TEXT, "As memory_event.category, or unattributed."),
    ), stream=True, hot=True, time="free_completed_ns", late=True, source="memory", sql_only=True, since=3),
    Table("step_range", "Where the rows of a step lie: tables are in commit order, so those of a step are close together, among some of its "
                        "neighbours. Ranges are empty (last < first) where it has none.", (
        Column("step", INT, "step.step"),
        ref("first_step_row", "step", "Smallest step.id of this step."),
        ref("last_step_row", "step", "Largest step.id of this step."),
        ref("first_op_run", "op_run", "Smallest op_run.id of this step."),
        ref("last_op_run", "op_run", "Largest op_run.id of this step."),
        ref("first_collective", "collective", "Smallest collective.id of this step."),
        ref("last_collective", "collective", "Largest collective.id of this step."),
    ), derived=True, since=4),
    Table("step_part", "Where the time of each step went, one row per rank and step: what v_step shows.", (
        key("Order of step, then rank."),
        Column("rank", INT, "rank.rank"),
        Column("step", INT, "step.step"),
        Column("compute_ns", INT, "Length of the union of its compute and optimizer ops.", "ns"),
        Column("communication_ns", INT, "Of its collectives.", "ns"),
        Column("copy_ns", INT, "Of its copies.", "ns"),
        Column("overlap_ns", INT, "Communication under compute.", "ns"),
        Column("exposed_copy_ns", INT, "Copies outside both.", "ns"),
        Column("slot_wait_ns", INT, "Waiting for a compute slot while nothing ran: part of idle.", "ns"),
    ), derived=True, since=4),
    Table("stall", "Every stall with its cause, as `shardscope report` gives it.", (
        key("Order of step, rank, then time."),
        Column("rank", INT, "rank.rank"),
        Column("step", INT, "step.step"),
        ref("op_run", "op_run", "The op that waited."),
        ref("plan_op", "plan_op", "What that is."),
        moment("start_ns", "The compute stream ran dry."),
        moment("end_ns", "The op, or the copy in front of it that waited, began."),
        ref("waiting_op_run", "op_run", "That op or copy."),
        ref("blocking_op_run", "op_run", "The collective it waited for; -1: none, it waited for a compute slot."),
        ref("blocking_plan_op", "plan_op", "What that is; -1: none."),
        Column("cause", TEXT, f"{listed('StallCause')}."),
        Column("cause_object", TEXT, "The op or rank that the cause names; may be empty."),
        Column("sentence", TEXT, "The cause in words."),
    ), derived=True, since=4),
    Table("slow_collective", "The slowest collectives of each step, at most 20, split when the last rank arrived.", (
        key("Order of step, longest first."),
        ref("op_run", "op_run"),
        ref("plan_op", "plan_op"),
        Column("rank", INT, "rank.rank"),
        Column("step", INT, "step.step"),
        Column("communicator", TEXT, "Name of the communicator."),
        Column("sequence", INT, "collective.sequence"),
        moment("started_ns", "This rank arrived."),
        moment("last_arrival_ns", "The last rank arrived."),
        moment("ended_ns", "It ended."),
        Column("last_rank", INT, "Which that was."),
        Column("payload_bytes", INT, "Unsharded bytes.", "bytes"),
        Column("wire_bytes", INT, "Bytes that each rank sends.", "bytes"),
        Column("complete", INT, "0: rows of some ranks are missing, so that the last arrival may have been later."),
    ), derived=True, since=4),
    Table("memory_peak", "Peak of each rank's memory by what was really live, by category and in all (category total): what v_memory_peak "
                         "shows.", (
        key("Order of rank."),
        Column("rank", INT, "rank.rank"),
        ref("schedule", "schedule", "schedule.id: of the total while steps of this Schedule ran; -1: of the whole run."),
        Column("category", TEXT, "As memory_event.category, or total."),
        Column("peak_bytes", INT, "The category's own peak.", "bytes"),
        moment("peak_ns", "When."),
        Column("at_total_peak_bytes", INT, "What it held when the total peaked.", "bytes"),
    ), derived=True, since=4),
    Table("front_part", "By how much the rank furthest behind got on in each stage of each step, counted once for all ranks: the parts of a "
                        "step add up to it.", (
        key("Order of step, then stage."),
        Column("step", INT, "step.step"),
        Column("rank", INT, "rank.rank that was furthest behind at the end of the stage."),
        Column("stage", TEXT, "data; phase, micro-batch and unit, as 'backward m1 block3'; optimizer; end."),
        Column("front_ns", INT, "By which the front got on.", "ns"),
        Column("delay_ns", INT, "Of that, what this rank needed beyond the median of the others, its waits for them not counted.", "ns"),
    ), derived=True, since=6),
    Table("path_part", "What the critical path of each step consists of; the parts of a step add up to what those of front_part do.", (
        key("Order of step."),
        Column("step", INT, "step.step"),
        Column("rank", INT, "rank.rank on which this was."),
        Column("kind", TEXT, f"{listed('PathKind')}."),
        Column("name", TEXT, "Short name of the op that ran or waited; of compute its phase, or recompute."),
        Column("path_ns", INT, "How long that was on the path.", "ns"),
    ), derived=True, since=6),
    Table("allocation_stack", "Where the program asked for the blocks of an imported memory snapshot, beside their rows of allocation (same id).", (
        Column("id", INT, "allocation.id", references="allocation"),
        ref("stack_string", "string", "The stack of its call, a line each frame, innermost first: string.id; -1: not recorded."),
        ref("context_string", "string", "What the snapshot says of it beyond that (compile_context, user_metadata): string.id; -1: nothing."),
    ), stream=True, sql_only=True, since=7),
    Table("flight_entry", "One row a collective, send or receive in a dump of PyTorch's flight recorder: what a rank had asked for when it "
                          "was written, and how far each had come.", (
        key("Commit order."),
        Column("rank", INT, "rank.rank"),
        Column("group_name", TEXT, "PyTorch's name of the group, equal on all its ranks."),
        Column("sequence", INT, "Counts the collectives of the group, or its sends and receives; equal on all ranks."),
        Column("is_p2p", INT, "1: a send or receive."),
        Column("record", INT, "The recorder's own number."),
        Column("operation", INT, "Counts the operations of the group, those inside of a coalesced collective too."),
        Column("name", TEXT, "nccl:all_gather, nccl:send 0->1, ..."),
        Column("state", TEXT, f"{listed('FlightState')}."),
        Column("input", TEXT, "Types and sizes of what it reads: Float [4, 2], Float [8]."),
        Column("output", TEXT, "Likewise of what it writes."),
        moment("created_ns", "The host asked for it."),
        Column("started_after_ns", INT, "From then until the recorder saw that it had begun, which it looks for now and then; -1: not seen.", "ns"),
        Column("completed_after_ns", INT, "Likewise that it had ended; -1: not seen.", "ns"),
        Column("timeout_ns", INT, "After which the watchdog ends the program; -1: not told.", "ns"),
        Column("retired", INT, "1: the program waits for it no longer."),
        ref("stack_string", "string", "Where the program asked for it, a line each frame, innermost first: string.id; -1: not recorded."),
    ), stream=True, part="all", since=7),
    Table("flight_group", "What a rank's dump of the flight recorder says of each of its groups.", (
        key("Commit order."),
        Column("rank", INT, "rank.rank"),
        Column("name", TEXT, "As flight_entry.group_name."),
        Column("description", TEXT, "What it was made for: default_pg, mesh_shard, ...; empty: not told."),
        Column("members", TEXT, "Its ranks, ascending: 0,1,2; empty: not told."),
        Column("last_enqueued", INT, "Sequence of the last collective that was asked for; -1: none, or not told."),
        Column("last_started", INT, "Likewise that was seen to begin."),
        Column("last_completed", INT, "Likewise that was seen to end."),
    ), since=7),
    Table("row_chunk", "Rows of the hot tables of a large finished trace once more, packed in columns, in the order of their table: a viewer "
                       "loads them in a fraction of the time. Who asks with SQL leaves it aside. A trace has all rows of a table here, or none: "
                       "triggers remove them when the table is changed.", (
        key("Counts up in the order of the rows; without gaps within a table."),
        Column("table_name", TEXT, "Whose rows these are."),
        Column("num_rows", INT, "At most 65,536."),
        Column("data", BLOB, "The rows; trace/store/row_chunk.h has the layout."),
    ), derived=True, sql_only=True, indexes=(("table_name",),), since=9),
)

PAIRS = (
    Pair("OpRecord", "One op execution, with its collective row (kind empty if it was none).",
         ("run", "op_run"), ("collective", "collective"), link="op_run", second_if="kind"),
    Pair("GpuWorkRecord", "Work of a GPU: its interval on the track of its stream and what else is known of it.",
         ("span", "span"), ("work", "gpu_work"), link="id"),
    Pair("NcclRecord", "What NCCL put on a stream, likewise.",
         ("span", "span"), ("operation", "nccl_operation"), link="id"),
)
