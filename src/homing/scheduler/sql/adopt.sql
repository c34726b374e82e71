-- adopt: write down schedules that others made in the engine, or changed there, so that they come back when it loses its data.
-- Parameters: queue text; schedules, job_names, datas, options, crons (null = none), zones: text[]; everys, starts, ends, mosts, nexts, ticks,
--   offsets: bigint[], of equal length.
-- Result: schedule, of those that were new or changed.
-- Guard: what code declares stays as code says; a row that is the same is not touched. Locks: the rows, in the order of their keys.
--   Index: schedules_pkey.
INSERT INTO homing.schedules AS s
  (queue, schedule, source, job_name, data, options, cron, zone, every_ms, start_ms, end_ms, most_ticks, next_ms, ticks, offset_ms)
SELECT :queue, schedule, 'engine', job_name, data, options, cron, zone, every_ms, start_ms, end_ms, most_ticks, next_ms, ticks, offset_ms
FROM unnest((:schedules)::text[], (:job_names)::text[], (:datas)::text[], (:options)::text[], (:crons)::text[], (:zones)::text[],
    (:everys)::bigint[], (:starts)::bigint[], (:ends)::bigint[], (:mosts)::bigint[], (:nexts)::bigint[], (:ticks)::bigint[], (:offsets)::bigint[])
  AS u(schedule, job_name, data, options, cron, zone, every_ms, start_ms, end_ms, most_ticks, next_ms, ticks, offset_ms)
ORDER BY 1, 2
ON CONFLICT (queue, schedule) DO UPDATE SET job_name = excluded.job_name, data = excluded.data, options = excluded.options,
  cron = excluded.cron, zone = excluded.zone, every_ms = excluded.every_ms, start_ms = excluded.start_ms, end_ms = excluded.end_ms,
  most_ticks = excluded.most_ticks, declared_at = clock_timestamp()
WHERE s.source = 'engine' AND (s.job_name, s.data, s.options, s.cron, s.zone, s.every_ms, s.start_ms, s.end_ms, s.most_ticks) IS DISTINCT FROM
  (excluded.job_name, excluded.data, excluded.options, excluded.cron, excluded.zone, excluded.every_ms, excluded.start_ms, excluded.end_ms,
  excluded.most_ticks)
RETURNING schedule;
