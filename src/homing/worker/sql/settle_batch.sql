-- settle_batch: mark the deliveries of a batch done, as the first statement of its handler's transaction.
-- Parameters: event_ids uuid[]; consumers text[]; generations smallint[], of equal length.
-- Result: event_id, consumer, generation, transaction_id of every row that was pending; the handler gets each of these events once.
-- Guard: generation and settled_at. Locks: the rows, in key order, until the handler's transaction ends. Index: deliveries_pkey.
WITH k AS (
  SELECT d.event_id, d.consumer
  FROM unnest((:event_ids)::uuid[], (:consumers)::text[], (:generations)::smallint[]) AS k(event_id, consumer, generation)
  JOIN homing.deliveries d USING (event_id, consumer, generation)
  WHERE d.settled_at IS NULL ORDER BY 1, 2 FOR UPDATE OF d)
UPDATE homing.deliveries d SET outcome = 'done', settled_at = clock_timestamp()
FROM k WHERE (d.event_id, d.consumer) = (k.event_id, k.consumer)
RETURNING d.event_id, d.consumer, d.generation, pg_current_xact_id()::text AS transaction_id;
