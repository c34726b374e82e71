-- settle_others: deliveries that another system has done (foreign), or has been handed (elsewhere), are done for us too.
-- Parameters: event_ids uuid[]; consumers text[]; generations smallint[]; results text[] (JSON or null), of equal length.
-- Result: event_id, consumer of every delivery that changed.
-- Guard: generation and settled_at. Locks: the rows, skipping those held, for this statement. Index: deliveries_pkey.
WITH k AS (
  SELECT d.event_id, d.consumer, u.result
  FROM unnest((:event_ids)::uuid[], (:consumers)::text[], (:generations)::smallint[], (:results)::text[])
    AS u(event_id, consumer, generation, result)
  JOIN homing.deliveries d USING (event_id, consumer, generation)
  WHERE d.settled_at IS NULL FOR UPDATE OF d SKIP LOCKED)
UPDATE homing.deliveries d SET outcome = 'done', settled_at = clock_timestamp(), result = k.result::jsonb
FROM k WHERE (d.event_id, d.consumer) = (k.event_id, k.consumer)
RETURNING d.event_id, d.consumer;
