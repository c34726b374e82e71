-- cancel: settle deliveries as cancelled that nobody holds, and tell of each what it was.
-- Parameters: event_ids uuid[]; consumers text[]; generations smallint[], of equal length.
-- Result: one row per delivery asked for: event_id, consumer, generation, cancelled, and as it was before: queue, present_generation,
-- outcome; these three null when there is no such row. Not cancelled, of this generation and without an outcome = a handler holds it.
-- Guard: generation and outcome. Locks: the rows, skipping those held, until the end of the transaction. Index: deliveries_pkey.
-- Plan: each key is locked by itself, and the guard is outcome, which no partial index knows: also a young database uses the key.
WITH k AS (
  SELECT * FROM unnest((:event_ids)::uuid[], (:consumers)::text[], (:generations)::smallint[]) AS u(event_id, consumer, generation)),
p AS (
  SELECT d.event_id, d.consumer FROM k
  JOIN LATERAL (
    SELECT o.event_id, o.consumer, o.generation FROM homing.deliveries o
    WHERE (o.event_id, o.consumer, o.generation) = (k.event_id, k.consumer, k.generation) AND o.outcome IS NULL
    FOR UPDATE SKIP LOCKED) d USING (event_id, consumer, generation)),
c AS (
  UPDATE homing.deliveries d SET outcome = 'cancelled', settled_at = clock_timestamp()
  FROM p WHERE (d.event_id, d.consumer) = (p.event_id, p.consumer) RETURNING d.event_id, d.consumer)
SELECT k.event_id, k.consumer, k.generation, c.event_id IS NOT NULL AS cancelled,
  d.queue, d.generation AS present_generation, d.outcome
FROM k LEFT JOIN c USING (event_id, consumer)
LEFT JOIN LATERAL (SELECT * FROM homing.deliveries d WHERE (d.event_id, d.consumer) = (k.event_id, k.consumer) OFFSET 0) d ON true;
