-- cancel: settle deliveries as cancelled that nobody holds, and tell of each what it was.
-- Parameters: event_ids uuid[]; consumers text[]; generations smallint[], of equal length.
-- Result: one row per delivery asked for: event_id, consumer, generation, cancelled, and as it was before: queue, present_generation,
-- outcome; these three null when there is no such row. Not cancelled, of this generation and without an outcome = a handler holds it.
-- Guard: generation and settled_at. Locks: the rows, skipping those held, until the end of the transaction. Index: deliveries_pkey.
WITH k AS (
  SELECT * FROM unnest((:event_ids)::uuid[], (:consumers)::text[], (:generations)::smallint[]) AS u(event_id, consumer, generation)),
p AS (
  SELECT d.event_id, d.consumer FROM k JOIN homing.deliveries d USING (event_id, consumer, generation)
  WHERE d.settled_at IS NULL FOR UPDATE OF d SKIP LOCKED),
c AS (
  UPDATE homing.deliveries d SET outcome = 'cancelled', settled_at = clock_timestamp()
  FROM p WHERE (d.event_id, d.consumer) = (p.event_id, p.consumer) RETURNING d.event_id, d.consumer)
SELECT k.event_id, k.consumer, k.generation, c.event_id IS NOT NULL AS cancelled,
  d.queue, d.generation AS present_generation, d.outcome
FROM k LEFT JOIN c USING (event_id, consumer) LEFT JOIN homing.deliveries d USING (event_id, consumer);
