-- declare: write down the schedules of this code, as every worker does when it starts. What a person paused stays paused.
--   Of many workers that start at once, one writes; the others find that it was said a moment ago.
-- Parameters: since timestamptz (what was said later is said for us too); queues, schedules, job_names, datas, options, crons (null = none),
--   zones: text[]; everys, starts, ends, mosts (null = none): bigint[]; immediates boolean[], of equal length.
-- Result: queue, schedule of those that were not written down like this before; one that another worker writes in this moment may be among them.
-- Guard: primary key; a row keeps its pause and what was seen of it, and one that says the same since then is not written again.
--   Locks: the rows, in the order of their keys. Index: schedules_pkey.
WITH said AS (
  SELECT * FROM unnest((:queues)::text[], (:schedules)::text[], (:job_names)::text[], (:datas)::text[], (:options)::text[], (:crons)::text[],
    (:zones)::text[], (:everys)::bigint[], (:starts)::bigint[], (:ends)::bigint[], (:mosts)::bigint[], (:immediates)::boolean[])
  AS u(queue, schedule, job_name, data, options, cron, zone, every_ms, start_ms, end_ms, most_ticks, immediate)),
known AS (
  SELECT s.queue, s.schedule FROM said u JOIN homing.schedules s ON s.queue = u.queue AND s.schedule = u.schedule
  WHERE s.source = 'code' AND (s.job_name, s.data, s.options, s.cron, s.zone, s.every_ms, s.start_ms, s.end_ms, s.most_ticks, s.immediate)
    IS NOT DISTINCT FROM (u.job_name, u.data, u.options, u.cron, u.zone, u.every_ms, u.start_ms, u.end_ms, u.most_ticks, u.immediate)),
written AS (
  INSERT INTO homing.schedules AS s
    (queue, schedule, source, job_name, data, options, cron, zone, every_ms, start_ms, end_ms, most_ticks, immediate)
  SELECT queue, schedule, 'code', job_name, data, options, cron, zone, every_ms, start_ms, end_ms, most_ticks, immediate
  FROM said ORDER BY 1, 2
  ON CONFLICT (queue, schedule) DO UPDATE SET source = 'code', job_name = excluded.job_name, data = excluded.data, options = excluded.options,
    cron = excluded.cron, zone = excluded.zone, every_ms = excluded.every_ms, start_ms = excluded.start_ms, end_ms = excluded.end_ms,
    most_ticks = excluded.most_ticks, immediate = excluded.immediate, declared_at = clock_timestamp()
  WHERE s.declared_at < (:since)::timestamptz OR s.source <> 'code' OR (s.job_name, s.data, s.options, s.cron, s.zone, s.every_ms, s.start_ms,
    s.end_ms, s.most_ticks, s.immediate) IS DISTINCT FROM (excluded.job_name, excluded.data, excluded.options, excluded.cron, excluded.zone,
    excluded.every_ms, excluded.start_ms, excluded.end_ms, excluded.most_ticks, excluded.immediate))
SELECT u.queue, u.schedule FROM said u
WHERE NOT EXISTS (SELECT FROM known k WHERE k.queue = u.queue AND k.schedule = u.schedule);
