-- forget: drop schedules of others that were removed in the engine, by whoever made them.
-- Parameters: queue text; schedules text[]; epoch integer (of the data in which they were missing).
-- Result: schedule, of those that were dropped.
-- Guard: what code declares and what is paused stays; nothing is dropped once a newer epoch has begun, in which the ledger tells the engine.
--   Locks: the rows. Index: schedules_pkey, queues_pkey.
DELETE FROM homing.schedules s USING homing.queues q
WHERE s.queue = :queue AND s.schedule = ANY((:schedules)::text[]) AND s.source = 'engine' AND s.paused_at IS NULL
  AND q.queue = s.queue AND q.epoch = (:epoch)::integer
RETURNING s.schedule;
