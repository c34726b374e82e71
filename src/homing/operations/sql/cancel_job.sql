-- cancel_job: settle a job that no relay made as cancelled, before it has begun.
-- Parameters: event_id uuid (its inbox id); queue, job_name text.
-- Result: the consumer under whose name it is cancelled, one row per consumer that takes such jobs; no row for one that is settled.
-- A job that no code registered for is cancelled under the name that a handler of it would have: queue and job name.
-- Guard: settled_at. Locks: the rows until the end of the transaction. Index: deliveries_pkey; subscriptions is small and read whole.
WITH c AS (
  SELECT DISTINCT consumer FROM homing.subscriptions WHERE queue = (:queue)::text AND job_name = (:job_name)::text),
n AS (
  SELECT consumer FROM c UNION ALL SELECT (:queue)::text || '.' || (:job_name)::text WHERE NOT EXISTS (SELECT FROM c))
INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, origin, outcome, settled_at)
SELECT (:event_id)::uuid, n.consumer, (:queue)::text, (:job_name)::text, 'job', 'cancelled', clock_timestamp() FROM n
ON CONFLICT (event_id, consumer) DO UPDATE SET outcome = 'cancelled', settled_at = clock_timestamp()
  WHERE deliveries.settled_at IS NULL
RETURNING consumer;
