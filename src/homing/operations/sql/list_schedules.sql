-- list_schedules: a page of schedules, with whether code that runs now still declares them.
-- Parameters: queue text (null = all); schedule text (null = all); after_queue text, after_schedule text (null = the first page); alive_seconds
--   float8 (how long after its last beat a process lives); page integer.
-- Result: the columns of schedules, served (whether a live worker serves its queue), declared (whether one declares it); by queue and name.
-- Guard: none, it only reads. Locks: none. Index: schedules_pkey; the processes are few.
SELECT s.queue, s.schedule, s.source, s.job_name, s.data, s.options, s.cron, s.zone, s.every_ms, s.start_ms, s.end_ms, s.most_ticks, s.immediate,
  s.declared_at, s.paused_at, s.next_ms, s.last_ms, s.ticks, s.offset_ms,
  coalesce(alive.served, false) AS served, coalesce(alive.eldest <= s.declared_at, false) AS declared
FROM homing.schedules s
LEFT JOIN LATERAL (
  SELECT true AS served, min(w.started_at) AS eldest FROM homing.workers w
  WHERE w.role = 'worker' AND s.queue = ANY(w.queues) AND w.seen_at > clock_timestamp() - make_interval(secs => (:alive_seconds)::float8)
  HAVING count(*) > 0) alive ON true
WHERE ((:queue)::text IS NULL OR s.queue = :queue) AND ((:schedule)::text IS NULL OR s.schedule = :schedule)
  AND ((:after_queue)::text IS NULL OR (s.queue, s.schedule) > ((:after_queue)::text, (:after_schedule)::text))
ORDER BY s.queue, s.schedule LIMIT (:page)::integer;
