-- settle_job_group: the inbox rows of jobs that no relay made and whose handlers ran without a transaction.
-- Parameters: rows jsonb (an array of event_id, consumer, queue, job_name, and result: JSON text or null).
-- Result: how many became done now.
-- Guard: a row that is done or cancelled stays; of copies of a message, which come together, one counts. Locks: the rows, for this statement only. Index: deliveries_pkey, dead_letters_history.
-- Plan: each letter is looked up by itself, and USING tells the planner that little is found: also a young database uses the keys.
WITH s AS (
  INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, origin, outcome, settled_at, result)
  SELECT DISTINCT ON (1, 2) k.event_id, k.consumer, k.queue, k.job_name, 'job', 'done', clock_timestamp(), k.result::jsonb
  FROM jsonb_to_recordset((:rows)::jsonb) AS k(event_id uuid, consumer text, queue text, job_name text, result text)
  ORDER BY 1, 2
  ON CONFLICT (event_id, consumer) DO UPDATE
    SET outcome = 'done', settled_at = clock_timestamp(), result = excluded.result
    WHERE deliveries.outcome IS NULL OR deliveries.outcome = 'dead'
  RETURNING event_id, consumer),
o AS (
  SELECT l.id
  FROM s JOIN LATERAL (
    SELECT l.id, l.event_id, l.consumer FROM homing.dead_letters l
    WHERE (l.event_id, l.consumer) = (s.event_id, s.consumer) AND l.closed_as IS NULL
    FOR UPDATE) l USING (event_id, consumer)),
l AS (
  UPDATE homing.dead_letters l SET closed_at = clock_timestamp(), closed_as = 'late success'
  FROM o WHERE l.id = o.id)
SELECT count(*) AS settled FROM s;
