-- settle_batch: mark the deliveries of a batch done, as the first statement of its handler's transaction.
-- Parameters: event_ids uuid[]; consumers text[]; generations smallint[], of equal length.
-- Result: event_id, consumer, generation, transaction_id of every row that was pending; the handler gets each of these events once.
-- Guard: generation and outcome. Locks: the rows, in key order, until the handler's transaction ends. Index: deliveries_pkey.
-- Plan: each key is locked by itself, and the guard is outcome, which no partial index knows: also a young database uses the key.
WITH k AS (
  SELECT d.event_id, d.consumer
  FROM (SELECT * FROM unnest((:event_ids)::uuid[], (:consumers)::text[], (:generations)::smallint[])
    AS u(event_id, consumer, generation) ORDER BY 1, 2) k
  JOIN LATERAL (
    SELECT o.event_id, o.consumer, o.generation FROM homing.deliveries o
    WHERE (o.event_id, o.consumer, o.generation) = (k.event_id, k.consumer, k.generation) AND o.outcome IS NULL
    FOR UPDATE) d USING (event_id, consumer, generation))
UPDATE homing.deliveries d SET outcome = 'done', settled_at = clock_timestamp()
FROM k WHERE (d.event_id, d.consumer) = (k.event_id, k.consumer)
RETURNING d.event_id, d.consumer, d.generation, pg_current_xact_id()::text AS transaction_id;
