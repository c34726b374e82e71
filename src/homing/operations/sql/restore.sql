-- restore: new events of its topics go to this consumer again; those that were routed meanwhile are for backfill.
-- Parameters: consumer text; topic text (null = all of its topics).
-- Result: topic and retired_at (as it was) of every route that was restored.
-- Guard: retired_at. Locks: the routes, until the end of the transaction. Index: subscriptions_pkey.
WITH was AS (
  SELECT s.topic, s.consumer, s.retired_at FROM homing.subscriptions s
  WHERE s.consumer = (:consumer)::text AND ((:topic)::text IS NULL OR s.topic = (:topic)::text) AND s.retired_at IS NOT NULL FOR UPDATE)
UPDATE homing.subscriptions s SET retired_at = NULL FROM was WHERE s.topic = was.topic AND s.consumer = was.consumer
RETURNING s.topic, least(greatest(was.retired_at, 'epoch'), '9999-12-31') AS retired_at;
