-- undispatched: the engine did not take the jobs of these deliveries: they are of no epoch, and due as soon as it is verified again.
-- Parameters: event_ids uuid[]; consumers text[]; generations smallint[], of equal length.
-- Result: nothing of interest. That they are gone at the next look is then no sign of a vanished job.
-- Guard: generation and outcome. Locks: the rows, skipping those held, for this statement. Index: deliveries_pkey.
-- Plan: each key is locked by itself, and the guard is outcome, which no partial index knows: also a young database uses the key.
WITH p AS (
  SELECT d.event_id, d.consumer
  FROM unnest((:event_ids)::uuid[], (:consumers)::text[], (:generations)::smallint[]) AS k(event_id, consumer, generation)
  JOIN LATERAL (
    SELECT o.event_id, o.consumer, o.generation FROM homing.deliveries o
    WHERE (o.event_id, o.consumer, o.generation) = (k.event_id, k.consumer, k.generation) AND o.outcome IS NULL AND o.epoch <> 0
    FOR UPDATE SKIP LOCKED) d USING (event_id, consumer, generation))
UPDATE homing.deliveries d SET epoch = 0
FROM p WHERE (d.event_id, d.consumer) = (p.event_id, p.consumer);
