-- Views of every trace. generate.py copies them into the files and, with the comments, into docs/trace.md. @sweep@ stands for sweep.sql.

-- One row: when the first op was issued, which all other `_ms` columns count from; without ops, when the first span began.
-- `area`, `moment`, `search`, links and the app count from the start of the run, the first row of any kind: mostly memory that
-- is taken some ms before the first op. So the same moment is a larger number there.
CREATE VIEW v_origin AS
SELECT coalesce((SELECT min(issued_ns) FROM op_run), (SELECT min(start_ns) FROM span)) AS origin_ns;

-- One row: rows up to this id have been derived from (step_part, stall, memory_peak), so that other views need not look at them again.
CREATE VIEW v_derived AS
SELECT CASE WHEN EXISTS (SELECT 1 FROM step_part) THEN 0x7fffffffffffffff ELSE -1 END AS through_id;

-- Every op run with its names. `blocked_by` is the dependency that was done last (empty: the op was ready
-- when it was issued).
CREATE VIEW v_op_run AS
SELECT r.id, r.rank, r.step, p.name AS op, p.kind, p.category, p.unit, p.segment, p.stream,
  (r.issued_ns - o.origin_ns) / 1e6 AS issued_ms,
  (r.ready_ns - o.origin_ns) / 1e6 AS ready_ms,
  (r.started_ns - o.origin_ns) / 1e6 AS started_ms,
  (r.ended_ns - o.origin_ns) / 1e6 AS ended_ms,
  (r.ended_ns - r.started_ns) / 1e6 AS duration_ms,
  r.slot_wait_ns / 1e6 AS slot_wait_ms, r.cpu_ns / 1e6 AS cpu_ms,
  coalesce(b.name, '') AS blocked_by, r.blocking_kind
FROM v_origin o CROSS JOIN op_run r JOIN plan_op p ON p.id = r.plan_op
LEFT JOIN plan_op b ON b.id = r.blocking_plan_op;

-- Every span that is no op, with its names.
CREATE VIEW v_span AS
SELECT s.id, t.rank, t.name AS track, n.text AS name, s.category,
  (s.start_ns - o.origin_ns) / 1e6 AS start_ms, s.duration_ns / 1e6 AS duration_ms, s.op_run
FROM v_origin o CROSS JOIN span s JOIN track t ON t.id = s.track
LEFT JOIN string n ON n.id = s.name_string;

-- Every kernel with its names: `op` is the op that launched it (empty: none). `launch_delay_ms` is from the end of the call that
-- launched it to its start: how far the host was ahead, or how long its stream was busy or had to wait.
CREATE VIEW v_kernel AS
SELECT g.id, t.rank, t.name AS track, n.text AS name, s.category, (s.start_ns - o.origin_ns) / 1e6 AS start_ms,
  s.duration_ns / 1e6 AS duration_ms, coalesce(p.name, '') AS op, g.step,
  CASE WHEN g.launch_track >= 0 THEN (g.launch_start_ns - o.origin_ns) / 1e6 END AS launch_ms,
  CASE WHEN g.launch_track >= 0 AND g.times <> 'lost'
    THEN (s.start_ns - g.launch_start_ns - g.launch_duration_ns) / 1e6 END AS launch_delay_ms,
  coalesce(l.name, '') AS launched_by,
  g.grid_x || 'x' || g.grid_y || 'x' || g.grid_z AS grid, g.block_x || 'x' || g.block_y || 'x' || g.block_z AS block,
  g.registers, g.static_shared_bytes + g.dynamic_shared_bytes AS shared_bytes, q.device, q.context, q.stream, g.channel,
  g.correlation, g.graph, g.graph_node, g.times
FROM v_origin o CROSS JOIN gpu_work g JOIN span s ON s.id = g.id JOIN track t ON t.id = s.track
LEFT JOIN string n ON n.id = s.name_string LEFT JOIN plan_op p ON p.id = g.plan_op
LEFT JOIN track l ON l.id = g.launch_track LEFT JOIN gpu_stream q ON q.track = s.track
WHERE g.kind = 'kernel';

-- Every copy and memset of the GPU, as v_kernel. `gb_s` is 10^9 bytes a second.
CREATE VIEW v_gpu_copy AS
SELECT g.id, t.rank, t.name AS track, g.kind, (s.start_ns - o.origin_ns) / 1e6 AS start_ms, s.duration_ns / 1e6 AS duration_ms,
  g.bytes / 1e6 AS mb, CASE WHEN s.duration_ns > 0 THEN g.bytes * 1.0 / s.duration_ns END AS gb_s,
  coalesce(p.name, '') AS op, g.step,
  CASE WHEN g.launch_track >= 0 AND g.times <> 'lost'
    THEN (s.start_ns - g.launch_start_ns - g.launch_duration_ns) / 1e6 END AS launch_delay_ms,
  q.device, q.context, q.stream, g.channel, g.correlation, g.times
FROM v_origin o CROSS JOIN gpu_work g JOIN span s ON s.id = g.id JOIN track t ON t.id = s.track
LEFT JOIN plan_op p ON p.id = g.plan_op LEFT JOIN gpu_stream q ON q.track = s.track
WHERE g.kind <> 'kernel';

-- Where a stream waited for an event of another, with the ops on both sides (empty: none).
CREATE VIEW v_event_edge AS
SELECT e.id, a.rank, a.name AS from_track, b.name AS to_track, coalesce(f.name, '') AS from_op, e.from_step,
  coalesce(t.name, '') AS to_op, e.to_step, (e.recorded_ns - o.origin_ns) / 1e6 AS recorded_ms,
  (e.waited_ns - o.origin_ns) / 1e6 AS waited_ms
FROM v_origin o CROSS JOIN event_edge e JOIN track a ON a.id = e.from_track JOIN track b ON b.id = e.to_track
LEFT JOIN plan_op f ON f.id = e.from_plan_op LEFT JOIN plan_op t ON t.id = e.to_plan_op;

-- Where the waits between streams that CUPTI saw differ from those of the Schedule: `missing` (planned, and no wait as strong was
-- seen) or `extra` (seen, and none as strong is planned). No row: none differ. Ops without GPU work stand for the work before
-- (or after) them on their stream. A wait of a later op of the one stream by an earlier op of the other is as strong. Planned are
-- event and stream dependencies and the order of a communicator; waits over the end of a step are not compared.
CREATE VIEW v_edge_check AS
WITH worked AS MATERIALIZED (
  SELECT p.* FROM plan_op p WHERE p.id IN (SELECT plan_op FROM gpu_work)),
planned(predecessor, plan_op) AS (
  SELECT predecessor, plan_op FROM plan_edge WHERE kind IN ('event', 'stream')
  UNION
  SELECT before, id FROM (
    SELECT id, lag(id) OVER (PARTITION BY schedule, program, communicator ORDER BY op) AS before
    FROM plan_op WHERE communicator <> '')
  WHERE before IS NOT NULL),
expected AS MATERIALIZED (
  SELECT DISTINCT q.schedule, q.program, p.stream AS from_stream, q.stream AS to_stream,
    (SELECT max(w.op) FROM worked w WHERE w.schedule = p.schedule AND w.program = p.program AND w.stream = p.stream
      AND w.op <= p.op) AS from_op,
    (SELECT min(w.op) FROM worked w WHERE w.schedule = q.schedule AND w.program = q.program AND w.stream = q.stream
      AND w.op >= q.op) AS to_op
  FROM planned e JOIN plan_op p ON p.id = e.predecessor JOIN plan_op q ON q.id = e.plan_op WHERE p.stream <> q.stream),
seen AS MATERIALIZED (
  SELECT DISTINCT t.rank, e.to_step AS step, q.schedule, q.program, p.stream AS from_stream, q.stream AS to_stream,
    p.op AS from_op, q.op AS to_op
  FROM event_edge e JOIN track t ON t.id = e.to_track JOIN plan_op p ON p.id = e.from_plan_op
  JOIN plan_op q ON q.id = e.to_plan_op
  WHERE e.from_step = e.to_step AND p.schedule = q.schedule AND p.program = q.program AND p.stream <> q.stream),
ran AS MATERIALIZED (
  SELECT DISTINCT t.rank, g.step, p.schedule, p.program
  FROM gpu_work g JOIN span s ON s.id = g.id JOIN track t ON t.id = s.track JOIN plan_op p ON p.id = g.plan_op),
differs AS (
  SELECT r.rank, r.step, r.schedule, r.program, e.from_op, e.to_op, 'missing' AS verdict
  FROM ran r JOIN expected e ON e.schedule = r.schedule AND e.program = r.program
  WHERE e.from_op IS NOT NULL AND e.to_op IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM seen s WHERE s.rank = r.rank AND s.step = r.step AND s.schedule = r.schedule AND s.program = r.program
      AND s.from_stream = e.from_stream AND s.to_stream = e.to_stream AND s.from_op >= e.from_op AND s.to_op <= e.to_op)
  UNION ALL
  SELECT s.rank, s.step, s.schedule, s.program, s.from_op, s.to_op, 'extra'
  FROM seen s WHERE NOT EXISTS (
    SELECT 1 FROM expected e WHERE e.schedule = s.schedule AND e.program = s.program AND e.from_stream = s.from_stream
      AND e.to_stream = s.to_stream AND e.from_op >= s.from_op AND e.to_op <= s.to_op))
SELECT d.rank, d.step, p.name AS from_op, q.name AS to_op, d.verdict
FROM differs d JOIN plan_op p ON p.schedule = d.schedule AND p.program = d.program AND p.op = d.from_op
JOIN plan_op q ON q.schedule = d.schedule AND q.program = d.program AND q.op = d.to_op;

-- What NCCL put on streams, and when its kernels ran (empty: not seen; a kernel of a group stands for several operations).
CREATE VIEW v_nccl AS
SELECT n.id, t.rank, n.communicator, n.communicator_rank, n.group_size, n.function, n.sequence, n.bytes / 1e6 AS mb, n.dtype,
  n.peer, n.algorithm, n.protocol, n.channels, (s.start_ns - o.origin_ns) / 1e6 AS enqueued_ms,
  (k.start_ns - o.origin_ns) / 1e6 AS kernel_ms, k.duration_ns / 1e6 AS kernel_duration_ms, w.name AS kernel_track
FROM v_origin o CROSS JOIN nccl_operation n JOIN span s ON s.id = n.id JOIN track t ON t.id = s.track
LEFT JOIN gpu_work g ON g.launch_track = n.launch_track AND n.launch_track >= 0
  AND g.launch_start_ns BETWEEN n.launch_start_ns AND n.launch_start_ns + n.launch_duration_ns
LEFT JOIN span k ON k.id = g.id LEFT JOIN track w ON w.id = k.track;

-- As the times of v_step, but of what the GPU did: kernels and copies instead of ops, by the categories of their spans. No row: no
-- GPU work in that step.
CREATE VIEW v_step_gpu AS
WITH work(rank, start_ns, end_ns, category) AS (
  SELECT t.rank, s.start_ns, s.start_ns + s.duration_ns, s.category
  FROM gpu_work g JOIN span s ON s.id = g.id JOIN track t ON t.id = s.track WHERE s.duration_ns > 0),
@sweep@
SELECT s.rank, s.step, (s.end_ns - s.start_ns) / 1e6 AS step_ms, p.compute / 1e6 AS compute_ms,
  p.communication / 1e6 AS communication_ms, p.copy / 1e6 AS copy_ms, p.overlap / 1e6 AS overlap_ms,
  (p.communication - p.overlap) / 1e6 AS exposed_ms, p.exposed_copy / 1e6 AS exposed_copy_ms,
  (s.end_ns - s.start_ns - (p.compute + p.communication - p.overlap + p.exposed_copy)) / 1e6 AS idle_ms
FROM step s JOIN part p ON p.rank = s.rank AND p.step = s.step
WHERE p.compute + p.communication + p.copy > 0;

-- Exposed communication and where the rest of each step went, one row per rank and step.
-- Times are lengths of unions of intervals, never sums: `compute_ms` (with the optimizer), `communication_ms`,
-- `copy_ms`; `overlap_ms` is communication under compute, `exposed_ms` communication that is not, `exposed_copy_ms`
-- copies outside both, `idle_ms` the rest, so compute + exposed + exposed_copy + idle = step. Waiting for a compute
-- slot (`slot_wait_ms`) is part of `idle_ms`, not a further part of the sum: the time in which a compute stream waited for one and nothing
-- else ran. Ops of category host count for nothing.
-- Steps that were not recorded (record.steps) have no row. Between steps, and in none of them, lie pauses (v_pause).
CREATE VIEW v_step AS
WITH work(rank, start_ns, end_ns, category) AS (
  SELECT r.rank, r.started_ns, r.ended_ns, p.category
  FROM op_run r JOIN plan_op p ON p.id = r.plan_op
  WHERE r.id > (SELECT through_id FROM v_derived) AND p.category <> 'host' AND r.ended_ns > r.started_ns
  UNION ALL
  SELECT rank, started_ns - slot_wait_ns, started_ns, 'slot_wait' FROM op_run
  WHERE id > (SELECT through_id FROM v_derived) AND slot_wait_ns > 0 AND track IN (SELECT id FROM track WHERE role = 'compute')),
@sweep@,
known AS MATERIALIZED (
  SELECT rank, CAST(step AS INTEGER) AS step, compute, communication, copy, overlap, exposed_copy, slot_wait FROM part
  WHERE (SELECT through_id FROM v_derived) < 0
  UNION ALL
  SELECT rank, step, compute_ns, communication_ns, copy_ns, overlap_ns, exposed_copy_ns, slot_wait_ns FROM step_part)
SELECT s.rank, s.step, (s.start_ns - o.origin_ns) / 1e6 AS start_ms, (s.end_ns - s.start_ns) / 1e6 AS step_ms,
  coalesce(p.compute, 0) / 1e6 AS compute_ms, coalesce(p.communication, 0) / 1e6 AS communication_ms,
  coalesce(p.copy, 0) / 1e6 AS copy_ms, coalesce(p.overlap, 0) / 1e6 AS overlap_ms,
  coalesce(p.communication - p.overlap, 0) / 1e6 AS exposed_ms, coalesce(p.exposed_copy, 0) / 1e6 AS exposed_copy_ms,
  (s.end_ns - s.start_ns - coalesce(p.compute + p.communication - p.overlap + p.exposed_copy, 0)) / 1e6 AS idle_ms,
  coalesce(p.slot_wait, 0) / 1e6 AS slot_wait_ms, s.tokens, s.loss, s.grad_norm
FROM v_origin o CROSS JOIN step s
LEFT JOIN known p ON p.rank = s.rank AND p.step = s.step;

-- Time between steps, in none of them: paused by the user, writing a checkpoint, taking up a change of knobs, or evaluating (v_evaluation).
CREATE VIEW v_pause AS
SELECT p.rank, p.step AS before_step, p.cause, (p.start_ns - o.origin_ns) / 1e6 AS start_ms, (p.end_ns - p.start_ns) / 1e6 AS pause_ms
FROM v_origin o CROSS JOIN pause p;

-- The loss over held-out data, one row an evaluation. `evaluation_ms` is the time of the rank that took longest.
CREATE VIEW v_evaluation AS
SELECT e.step AS before_step, e.loss, e.tokens, e.batches, (min(e.start_ns) - o.origin_ns) / 1e6 AS start_ms,
  max(e.end_ns - e.start_ns) / 1e6 AS evaluation_ms
FROM v_origin o CROSS JOIN evaluation e GROUP BY e.step, e.first_batch;

-- Every collective of every rank, split when its last rank arrived: `wait_ms` before, `transfer_ms` after.
-- `bus_gb_s` is what each rank sent per second of transfer (10^9 bytes).
CREATE VIEW v_collective AS
WITH arrived AS MATERIALIZED (
  SELECT c.communicator, c.sequence, max(r.started_ns) AS last_ns
  FROM collective c JOIN op_run r ON r.id = c.op_run GROUP BY c.communicator, c.sequence)
SELECT c.op_run, c.rank, c.step, c.communicator, c.sequence, p.name AS op, c.kind, p.unit,
  c.payload_bytes / 1e6 AS payload_mb, c.wire_bytes / 1e6 AS wire_mb, c.dtype, c.group_size,
  (r.issued_ns - o.origin_ns) / 1e6 AS issued_ms, (r.started_ns - o.origin_ns) / 1e6 AS started_ms,
  (r.ended_ns - o.origin_ns) / 1e6 AS ended_ms,
  (min(a.last_ns, r.ended_ns) - r.started_ns) / 1e6 AS wait_ms,
  max(r.ended_ns - a.last_ns, 0) / 1e6 AS transfer_ms,
  CASE WHEN r.ended_ns > a.last_ns THEN c.wire_bytes * 1.0 / (r.ended_ns - a.last_ns) END AS bus_gb_s,
  c.transport, c.truth
FROM v_origin o CROSS JOIN collective c CROSS JOIN op_run r ON r.id = c.op_run
CROSS JOIN arrived a ON a.communicator = c.communicator AND a.sequence = c.sequence JOIN plan_op p ON p.id = r.plan_op;

-- The stalls of `shardscope report` and of the app, one row each: where the compute stream of a rank (fsdp2 also copies out there) had
-- nothing to do for 20 us or longer, in a finished step, before `op`, because it waited for a collective or for a compute slot.
-- `waited_ms` counts from then (`from_ms`) until the op, or the copy in front of it, began; the part spent waiting for a slot is a row
-- of its own, without a collective. `blocked_by` is what was waited for last, `collective` the collective behind it, through copies and
-- frees; `issued_ahead_ms` how long before the stall it was issued (negative: later). The view has no cause: that takes what other ranks,
-- the host and other streams did meanwhile, and is said by `shardscope report` (`--json --all` lists every stall with its cause) and, of a
-- finished trace, by table stall.
CREATE VIEW v_stall AS
WITH RECURSIVE
timed AS MATERIALIZED (
  SELECT r.id, r.rank, r.step, r.track, r.started_ns, r.slot_wait_ns, r.plan_op, r.blocking_plan_op, r.blocking_kind, p.name,
    p.category IN ('compute', 'optimizer') AS works,
    max(s.start_ns, coalesce(max(r.ended_ns) OVER before, s.start_ns)) AS dry_ns,
    coalesce(sum(p.category IN ('compute', 'optimizer')) OVER before, 0) AS worked
  FROM op_run r JOIN plan_op p ON p.id = r.plan_op JOIN step s ON s.rank = r.rank AND s.step = r.step
  WHERE r.id > (SELECT through_id FROM v_derived) AND r.track IN (SELECT id FROM track WHERE role = 'compute') AND p.category <> 'host'
  WINDOW before AS (PARTITION BY r.track ORDER BY r.started_ns, p.op ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)),
gap AS MATERIALIZED (
  SELECT t.*, coalesce(w.name, t.name) AS op, max(0, min(t.slot_wait_ns, t.started_ns - t.dry_ns)) AS slot_ns
  FROM timed t LEFT JOIN timed w ON NOT t.works AND w.works AND w.track = t.track AND w.worked = t.worked AND w.step = t.step
  WHERE t.started_ns - t.dry_ns >= 20000 AND (t.works OR w.id IS NOT NULL)),
chain(gap, rank, step, from_ns, run, category, plan_op, blocking_plan_op, blocking_kind) AS (
  SELECT id, rank, step, dry_ns, id, '', plan_op, blocking_plan_op, blocking_kind
  FROM gap WHERE started_ns - slot_ns - dry_ns >= 20000
  UNION
  SELECT c.gap, c.rank, c.step, c.from_ns, r.id, p.category, r.plan_op, r.blocking_plan_op, r.blocking_kind
  FROM chain c JOIN op_run r ON r.rank = c.rank AND r.step = c.step AND r.plan_op = CASE
    WHEN c.blocking_plan_op >= 0 THEN c.blocking_plan_op
    -- A wait for a slot hides what the op waited for before.
    WHEN c.blocking_kind = 'slot' THEN (
      SELECT e.predecessor FROM plan_edge e JOIN op_run q ON q.plan_op = e.predecessor AND q.rank = c.rank AND q.step = c.step
      WHERE e.plan_op = c.plan_op ORDER BY q.ended_ns DESC, e.id LIMIT 1) END
  JOIN plan_op p ON p.id = r.plan_op
  WHERE c.category <> 'communication' AND r.ended_ns > c.from_ns AND p.category NOT IN ('compute', 'optimizer'))
SELECT g.rank, g.step, g.op, (g.started_ns - g.slot_ns - g.dry_ns) / 1e6 AS waited_ms, coalesce(b.name, '') AS blocked_by,
  g.blocking_kind, p.name AS collective, (r.ended_ns - r.started_ns) / 1e6 AS collective_ms,
  (g.dry_ns - r.issued_ns) / 1e6 AS issued_ahead_ms, (g.dry_ns - o.origin_ns) / 1e6 AS from_ms
FROM v_origin o CROSS JOIN chain c JOIN gap g ON g.id = c.gap JOIN op_run r ON r.id = c.run JOIN plan_op p ON p.id = c.plan_op
LEFT JOIN plan_op b ON b.id = g.blocking_plan_op
WHERE c.category = 'communication'
UNION ALL
SELECT g.rank, g.step, g.op, g.slot_ns / 1e6, '', 'slot', '', NULL, NULL, (g.started_ns - g.slot_ns - o.origin_ns) / 1e6
FROM v_origin o CROSS JOIN gap g WHERE g.slot_ns >= 20000
UNION ALL
SELECT s.rank, s.step, q.name, (s.end_ns - s.start_ns) / 1e6, CASE WHEN p.id IS NULL THEN '' ELSE coalesce(b.name, '') END,
  CASE WHEN p.id IS NULL THEN 'slot' ELSE w.blocking_kind END, coalesce(p.name, ''), (r.ended_ns - r.started_ns) / 1e6,
  (s.start_ns - r.issued_ns) / 1e6, (s.start_ns - o.origin_ns) / 1e6
FROM v_origin o CROSS JOIN stall s JOIN plan_op q ON q.id = s.plan_op JOIN op_run w ON w.id = s.waiting_op_run
LEFT JOIN plan_op b ON b.id = w.blocking_plan_op LEFT JOIN op_run r ON r.id = s.blocking_op_run
LEFT JOIN plan_op p ON p.id = s.blocking_plan_op;

-- Peak memory of every rank, by category and in all (category `total`), of what was really live (execution times).
-- `peak_mb` is the category's own peak, `at_ms` when; `at_total_peak_mb` is what it held when the total peaked.
CREATE VIEW v_memory_peak AS
WITH live AS (
  SELECT rank, category, executed_ns, id,
    sum(bytes) OVER (PARTITION BY rank, category ORDER BY executed_ns, id) AS held,
    sum(bytes) OVER (PARTITION BY rank ORDER BY executed_ns, id) AS total
  FROM memory_event WHERE id > (SELECT through_id FROM v_derived)),
total_peak AS (
  SELECT rank, total, executed_ns, id FROM (
    SELECT *, row_number() OVER (PARTITION BY rank ORDER BY total DESC, executed_ns, id) AS place FROM live)
  WHERE place = 1),
category_peak AS (
  SELECT rank, category, held, executed_ns FROM (
    SELECT *, row_number() OVER (PARTITION BY rank, category ORDER BY held DESC, executed_ns, id) AS place FROM live)
  WHERE place = 1),
at_peak AS (
  SELECT m.rank, m.category, sum(m.bytes) AS held
  FROM memory_event m JOIN total_peak t ON t.rank = m.rank AND (m.executed_ns, m.id) <= (t.executed_ns, t.id)
  WHERE m.id > (SELECT through_id FROM v_derived)
  GROUP BY m.rank, m.category)
SELECT c.rank, c.category, c.held / 1e6 AS peak_mb, (c.executed_ns - o.origin_ns) / 1e6 AS at_ms,
  coalesce(a.held, 0) / 1e6 AS at_total_peak_mb
FROM v_origin o CROSS JOIN category_peak c LEFT JOIN at_peak a ON a.rank = c.rank AND a.category = c.category
UNION ALL
SELECT t.rank, 'total', t.total / 1e6, (t.executed_ns - o.origin_ns) / 1e6, t.total / 1e6
FROM v_origin o CROSS JOIN total_peak t
UNION ALL
SELECT rank, category, peak_bytes / 1e6, (peak_ns - o.origin_ns) / 1e6, at_total_peak_bytes / 1e6
FROM v_origin o CROSS JOIN memory_peak WHERE schedule < 0
ORDER BY 1, 3 DESC;

-- What was lost, by source and reason; no row means that nothing was.
CREATE VIEW v_dropped AS
SELECT source, reason, sum(dropped) AS dropped FROM capability WHERE dropped > 0 GROUP BY source, reason
UNION ALL
SELECT substr(m.key, 9), 'steps to ' || s.value || ' were removed to keep record.max_bytes', CAST(m.value AS INTEGER)
FROM meta m JOIN meta s ON s.key = 'dropped_through_step'
WHERE m.key IN ('dropped_engine', 'dropped_memory') AND CAST(m.value AS INTEGER) > 0;

-- How far the times of each GPU can be off against the host's clock, over the whole run: what would have to be added to them lies
-- between `low_us` and `high_us`, so they are right within `uncertainty_us`. `low_us` above 0: work seems to begin before its launch;
-- `high_us` below 0: work seems to end after the host saw it done; `low_us` above `high_us`: the clocks drift against each other.
CREATE VIEW v_gpu_clock AS
SELECT rank, device, method, max(low_ns) / 1e3 AS low_us, min(high_ns) / 1e3 AS high_us,
  max(abs(max(low_ns)), abs(min(high_ns))) / 1e3 AS uncertainty_us, count(*) AS readings, sum(works) AS works, sum(waits) AS waits
FROM gpu_clock GROUP BY rank, device, method;

-- What recording costs, as the run measured it (table overhead_step): `ratio` is the time of a recorded step over that of one that was
-- not recorded, the median of `rounds` comparisons, of which the lowest was `lowest` and the highest `highest`. Each compares the step
-- that was not recorded with the mean of those beside it; a step takes as long as its slowest rank. No row: nothing was measured.
CREATE VIEW v_overhead AS
WITH one AS (SELECT round, step, recorded, max(duration_ns) AS ns FROM overhead_step WHERE duration_ns > 0 GROUP BY round, step, recorded),
compared AS (
  SELECT round, avg(ns) FILTER (WHERE recorded = 1) AS with_ns, avg(ns) FILTER (WHERE recorded = 0) AS without_ns FROM one GROUP BY round),
ranked AS (
  SELECT with_ns / without_ns AS ratio, with_ns, without_ns, count(*) OVER () AS rounds,
    row_number() OVER (ORDER BY with_ns / without_ns) AS by_ratio, row_number() OVER (ORDER BY with_ns) AS by_with,
    row_number() OVER (ORDER BY without_ns) AS by_without
  FROM compared WHERE with_ns IS NOT NULL AND without_ns IS NOT NULL)
SELECT avg(ratio) FILTER (WHERE by_ratio IN ((rounds + 1) / 2, rounds / 2 + 1)) AS ratio, min(ratio) AS lowest, max(ratio) AS highest, rounds,
  avg(with_ns) FILTER (WHERE by_with IN ((rounds + 1) / 2, rounds / 2 + 1)) / 1e6 AS recorded_ms,
  avg(without_ns) FILTER (WHERE by_without IN ((rounds + 1) / 2, rounds / 2 + 1)) / 1e6 AS not_recorded_ms
FROM ranked GROUP BY rounds;
