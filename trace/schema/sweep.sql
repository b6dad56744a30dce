-- The sweep of v_step and v_step_gpu: from intervals `work(rank, start_ns, end_ns, category)` to their lengths in each step, as `part`.
-- Category slot_wait is waiting for a compute slot; what of it lies outside all others is part of idle. Every start and end is an event;
-- running sums over the events of a rank say what is running between one event and the next.
event(rank, time_ns, compute, communication, copy, slot_wait, inside, step) AS (
    SELECT rank, start_ns, category IN ('compute', 'optimizer'), category = 'communication', category = 'copy', category = 'slot_wait', 0, NULL
    FROM work
  UNION ALL
    SELECT rank, end_ns, -(category IN ('compute', 'optimizer')), -(category = 'communication'), -(category = 'copy'),
      -(category = 'slot_wait'), 0, NULL
    FROM work
  UNION ALL SELECT rank, start_ns, 0, 0, 0, 0, 1, step FROM step
  UNION ALL SELECT rank, end_ns, 0, 0, 0, 0, -1, NULL FROM step),
piece AS (
  SELECT rank, lead(time_ns, 1, time_ns) OVER ordered - time_ns AS length_ns,
    sum(compute) OVER ordered > 0 AS compute, sum(communication) OVER ordered > 0 AS communication,
    sum(copy) OVER ordered > 0 AS copy, sum(slot_wait) OVER ordered > 0 AS slot_wait, sum(inside) OVER ordered > 0 AS inside, max(step) OVER ordered AS step
  FROM event
  WINDOW ordered AS (PARTITION BY rank ORDER BY time_ns ROWS UNBOUNDED PRECEDING)),
part AS (
  SELECT rank, step, sum(length_ns * compute) AS compute, sum(length_ns * communication) AS communication,
    sum(length_ns * copy) AS copy, sum(length_ns * (compute AND communication)) AS overlap,
    sum(length_ns * (copy AND NOT compute AND NOT communication)) AS exposed_copy,
    sum(length_ns * (slot_wait AND NOT compute AND NOT communication AND NOT copy)) AS slot_wait
  FROM piece WHERE inside AND length_ns > 0 GROUP BY rank, step)
