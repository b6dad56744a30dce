"""What the recorder says about work on a GPU."""

from .checks_engine import LOCAL
from .lab import SMALL

BASE_STEPS = 6

# Kernels between the first step's begin and the last one's end. What runs before (initial weights) belongs to no op.
JOIN_RATE = """
SELECT count(*) AS kernels, coalesce(sum(g.plan_op >= 0), 0) AS joined FROM gpu_work g JOIN span s ON s.id = g.id
WHERE g.kind = 'kernel' AND s.start_ns BETWEEN (SELECT min(start_ns) FROM step) AND (SELECT max(end_ns) FROM step)
"""
CLOCK_SKEW = """
SELECT count(*) AS kernels, coalesce(max(g.launch_start_ns - s.start_ns), 0) / 1e3 AS before_launch_us,
  coalesce(max(s.start_ns + s.duration_ns - e.end_ns), 0) / 1e3 AS after_step_us
FROM gpu_work g JOIN span s ON s.id = g.id JOIN track t ON t.id = s.track
JOIN step e ON e.rank = t.rank AND e.step = g.step
WHERE g.kind = 'kernel' AND g.times = 'measured' AND g.launch_track >= 0 AND g.plan_op >= 0
"""
# Cause and effect bound what the GPU's times can be off by; worst of all GPUs. No row: nothing is known.
GPU_CLOCK = """
SELECT count(*) AS gpu_clocks, coalesce(max(uncertainty_us), -1) AS uncertainty_us, coalesce(max(low_us), 0) AS low_us,
  coalesce(min(high_us), 0) AS high_us FROM v_gpu_clock
"""
# An op waits for another one's event: its work begins after the other's has ended. Both on the clock of the GPU.
EDGES = """
WITH work AS (
  SELECT t.rank, g.step, g.plan_op, min(s.start_ns) AS start_ns, max(s.start_ns + s.duration_ns) AS end_ns
  FROM gpu_work g JOIN span s ON s.id = g.id JOIN track t ON t.id = s.track
  WHERE g.plan_op >= 0 AND g.times = 'measured' GROUP BY 1, 2, 3)
SELECT count(*) AS checked, coalesce(sum(b.start_ns < a.end_ns), 0) AS violated
FROM plan_edge e JOIN work a ON a.plan_op = e.predecessor JOIN work b ON b.plan_op = e.plan_op AND b.step = a.step AND b.rank = a.rank
WHERE e.kind = 'event'
"""
# What CUPTI saw of the waits themselves. Extra ones are not wrong: virtual ranks of one GPU also wait for each other.
SEEN_EDGES = """
SELECT (SELECT count(*) FROM event_edge) AS seen_by_cupti, coalesce(sum(verdict = 'missing'), 0) AS missing,
  coalesce(sum(verdict = 'extra'), 0) AS extra FROM v_edge_check
"""
# At the end of every step: what was allocated, with what no op accounts for, beside the sum of all events until then.
MEMORY = """
SELECT count(*) AS step_ends, coalesce(max(abs(c.value - (
  SELECT coalesce(sum(bytes), 0) FROM memory_event m WHERE m.rank = t.rank AND m.executed_ns <= c.time_ns))), -1) AS unaccounted_bytes
FROM counter c JOIN track t ON t.id = c.track JOIN string s ON s.id = c.name_string WHERE s.text = 'allocated_bytes'
"""
# What LibTorch's allocator handed out and no op accounts for: workspaces of libraries, which are taken in the first steps and stay.
# `late_bytes` came or went after that; `allocator_on`: the allocator was heard at all.
UNACCOUNTED = """
SELECT coalesce(sum(m.bytes), 0) AS held_bytes,
  coalesce(sum(abs(m.bytes)) FILTER (WHERE m.executed_ns > (SELECT max(end_ns) FROM step WHERE step <= 2)), 0) AS late_bytes,
  EXISTS (SELECT 1 FROM capability WHERE source = 'allocator' AND status = 'on') AS allocator_on
FROM memory_event m WHERE m.unit = 'unaccounted'
"""
# Of the GPU by anybody, as the driver says, beside what CUPTI saw it hand out.
IN_USE = """
SELECT count(*) AS device_used_readings, coalesce(max(c.value), 0) AS device_used_bytes
FROM counter c JOIN string s ON s.id = c.name_string WHERE s.text = 'device_used_bytes'
"""
SEGMENTS = "SELECT coalesce(sum(bytes), 0) AS bytes FROM memory_segment WHERE kind = 'device' AND bytes > 0"
INJECTED = """
SELECT (SELECT count(*) FROM gpu_work WHERE kind = 'kernel') AS kernels,
  (SELECT count(*) FROM gpu_work WHERE kind <> 'kernel') AS copies, (SELECT count(*) FROM nccl_operation) AS nccl_operations,
  (SELECT count(*) FROM span s JOIN string n ON n.id = s.name_string WHERE n.text LIKE '%FSDP::%') AS fsdp_ranges,
  EXISTS (SELECT 1 FROM capability WHERE source = 'cupti' AND status = 'on') AS cupti_on
"""


def base(lab):
    """The run that most checks look at; its raw CUPTI buffers are brought back."""
    return lab.train("base", *LOCAL, *SMALL, f"train.steps={BASE_STEPS}", environment={"SHARDSCOPE_CUPTI_DUMP": str(lab.folder)})


def first_row(lab, run, query):
    return lab.sql(run, query)[0]


def join_rate(lab):
    row = first_row(lab, base(lab), JOIN_RATE)
    return {**row, "joined_share": row["joined"] / max(1, row["kernels"])}


def clock_skew(lab):
    return {**first_row(lab, base(lab), CLOCK_SKEW), **first_row(lab, base(lab), GPU_CLOCK)}


def edges(lab):
    return {**first_row(lab, base(lab), EDGES), **first_row(lab, base(lab), SEEN_EDGES)}


def memory(lab):
    return {**first_row(lab, base(lab), MEMORY), **first_row(lab, base(lab), UNACCOUNTED), **first_row(lab, base(lab), IN_USE),
            "segment_bytes": first_row(lab, base(lab), SEGMENTS)["bytes"]}


def injection(lab):
    """The same program alone and recorded: the same output, and a trace of its GPU work."""
    alone = lab.pytorch("fsdp2_small.py")
    run = lab.folder / "injected"
    prefix = (lab.places.binaries / "shardscope", "record", "-o", run, "--")
    recorded = lab.pytorch("fsdp2_small.py", prefix=prefix)
    return {**first_row(lab, run, INJECTED), "same_output": int(alone == recorded)}
