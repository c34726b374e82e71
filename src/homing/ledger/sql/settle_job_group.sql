-- settle_job_group: the inbox rows of jobs that no relay made and whose handlers ran without a transaction.
-- Parameters: event_ids uuid[]; consumers, queues, job_names text[]; results text[] (JSON or null), of equal length.
-- Result: one row per delivery that became done now.
-- Guard: a row that is done or cancelled stays. Locks: the rows, for this statement only. Index: deliveries_pkey.
WITH s AS (
  INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, origin, outcome, settled_at, result)
  SELECT k.event_id, k.consumer, k.queue, k.job_name, 'job', 'done', clock_timestamp(), k.result::jsonb
  FROM unnest((:event_ids)::uuid[], (:consumers)::text[], (:queues)::text[], (:job_names)::text[], (:results)::text[])
    AS k(event_id, consumer, queue, job_name, result)
  ORDER BY 1, 2
  ON CONFLICT (event_id, consumer) DO UPDATE
    SET outcome = 'done', settled_at = clock_timestamp(), result = excluded.result
    WHERE deliveries.outcome IS NULL OR deliveries.outcome = 'dead'
  RETURNING event_id, consumer),
l AS (
  UPDATE homing.dead_letters l SET closed_at = clock_timestamp(), closed_as = 'late success'
  FROM s WHERE (l.event_id, l.consumer) = (s.event_id, s.consumer) AND l.closed_at IS NULL)
SELECT event_id, consumer FROM s;
