-- schedules: what is written down of some schedules of a queue.
-- Parameters: queue text; schedules text[] (null = all).
-- Result: the row, all times in milliseconds; in the order of their names.
-- Guard: none, it only reads. Locks: none. Index: schedules_pkey.
SELECT queue, schedule, source, job_name, data, options, cron, zone, every_ms, start_ms, end_ms, most_ticks, immediate, declared_at,
  paused_at, next_ms, last_ms, ticks, offset_ms
FROM homing.schedules
WHERE queue = :queue AND ((:schedules)::text[] IS NULL OR schedule = ANY((:schedules)::text[]))
ORDER BY schedule;
