-- sweep: take or keep the right to look at a queue: a lease that saves work; correctness does not need it.
-- Parameters: queue text; sweeper uuid (this process); lease_seconds float8.
-- Result: one row when the lease is ours, none when another process holds it or the queue is not registered.
-- Guard: sweeper and sweeper_until. Locks: the queue's row, skipped when somebody holds it. Index: queues_pkey.
WITH q AS (
  SELECT queue FROM homing.queues
  WHERE queue = :queue AND (sweeper = :sweeper OR sweeper_until < now() OR sweeper IS NULL)
  FOR UPDATE SKIP LOCKED)
UPDATE homing.queues SET sweeper = :sweeper, sweeper_until = now() + make_interval(secs => (:lease_seconds)::float8)
FROM q WHERE queues.queue = q.queue RETURNING queues.queue;
