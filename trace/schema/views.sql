-- Views of every trace. generate.py copies them into the files and, with the comments, into docs/trace.md. Definitions are
-- those of docs: interval unions, never sums; milliseconds count from the first op's issue.

-- One row: when the first op was issued, which all `_ms` columns count from.
CREATE VIEW v_origin AS
SELECT min(issued_ns) AS origin_ns FROM op_run;

-- Every op run with its names, in milliseconds.
-- `blocked_by` is the dependency that was done last (empty: the op was ready when issued).
CREATE VIEW v_op_run AS
SELECT r.id, r.rank, r.step, p.name AS op, p.kind, p.category, p.unit, p.segment, p.stream,
  (r.issued_ns - o.origin_ns) / 1e6 AS issued_ms,
  (r.ready_ns - o.origin_ns) / 1e6 AS ready_ms,
  (r.started_ns - o.origin_ns) / 1e6 AS started_ms,
  (r.ended_ns - o.origin_ns) / 1e6 AS ended_ms,
  (r.ended_ns - r.started_ns) / 1e6 AS duration_ms,
  r.slot_wait_ns / 1e6 AS slot_wait_ms, r.cpu_ns / 1e6 AS cpu_ms,
  coalesce(b.name, '') AS blocked_by, r.blocking_kind
FROM op_run r CROSS JOIN v_origin o JOIN plan_op p ON p.id = r.plan_op
LEFT JOIN plan_op b ON b.id = r.blocking_plan_op;
