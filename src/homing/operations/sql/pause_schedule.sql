-- pause_schedule: let the engine hold a schedule no more, until somebody resumes it. A tick whose time has not come will not be: it is not counted.
-- Parameters: queue, schedule text; now_ms bigint (the engine's clock).
-- Result: schedule; none when there is no such schedule, or it is paused already.
-- Guard: primary key, paused_at. Locks: the row, until the end of the transaction. Index: schedules_pkey.
UPDATE homing.schedules SET paused_at = clock_timestamp(),
  ticks = greatest(ticks - (coalesce(next_ms, 0) > (:now_ms)::bigint)::int, 0),
  next_ms = CASE WHEN next_ms > (:now_ms)::bigint THEN last_ms ELSE next_ms END
WHERE queue = :queue AND schedule = :schedule AND paused_at IS NULL
RETURNING schedule;
