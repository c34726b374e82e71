-- note: keep which ticks the engine holds, so that it can go on from there after it forgot.
-- Parameters: queue text; schedules text[]; nexts, ticks, offsets (null = none): bigint[], of equal length.
-- Result: none.
-- Guard: a row that says so already is not touched. Locks: the rows, in the order of their keys. Index: schedules_pkey.
WITH seen AS (SELECT s.queue, s.schedule, u.next_ms, u.ticks, u.offset_ms
  FROM unnest((:schedules)::text[], (:nexts)::bigint[], (:ticks)::bigint[], (:offsets)::bigint[]) AS u(schedule, next_ms, ticks, offset_ms)
  JOIN homing.schedules s ON s.queue = :queue AND s.schedule = u.schedule
  WHERE (s.next_ms, s.ticks, s.offset_ms) IS DISTINCT FROM (u.next_ms, u.ticks, u.offset_ms)
  ORDER BY s.schedule FOR UPDATE OF s)
UPDATE homing.schedules s SET next_ms = seen.next_ms, ticks = seen.ticks, offset_ms = seen.offset_ms,
  last_ms = CASE WHEN s.next_ms < seen.next_ms THEN s.next_ms ELSE s.last_ms END
FROM seen WHERE s.queue = seen.queue AND s.schedule = seen.schedule;
