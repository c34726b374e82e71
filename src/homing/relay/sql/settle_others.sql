-- settle_others: deliveries that another system has done (foreign), or has been handed (elsewhere), are done for us too.
-- Parameters: event_ids uuid[]; consumers text[]; generations smallint[]; results text[] (JSON or null), of equal length.
-- Result: event_id, consumer of every delivery that changed.
-- Guard: generation and outcome. Locks: the rows, skipping those held, for this statement. Index: deliveries_pkey.
-- Plan: each key is locked by itself, and the guard is outcome, which no partial index knows: also a young database uses the key.
WITH k AS (
  SELECT d.event_id, d.consumer, u.result
  FROM unnest((:event_ids)::uuid[], (:consumers)::text[], (:generations)::smallint[], (:results)::text[])
    AS u(event_id, consumer, generation, result)
  JOIN LATERAL (
    SELECT o.event_id, o.consumer, o.generation FROM homing.deliveries o
    WHERE (o.event_id, o.consumer, o.generation) = (u.event_id, u.consumer, u.generation) AND o.outcome IS NULL
    FOR UPDATE SKIP LOCKED) d USING (event_id, consumer, generation))
UPDATE homing.deliveries d SET outcome = 'done', settled_at = clock_timestamp(), result = k.result::jsonb
FROM k WHERE (d.event_id, d.consumer) = (k.event_id, k.consumer)
RETURNING d.event_id, d.consumer;
