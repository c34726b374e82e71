-- undispatched: the engine did not take the jobs of these deliveries: they are of no epoch, and due as soon as it is verified again.
-- Parameters: event_ids uuid[]; consumers text[]; generations smallint[], of equal length.
-- Result: nothing of interest. That they are gone at the next look is then no sign of a vanished job.
-- Guard: generation and settled_at. Locks: the rows, skipping those held, for this statement. Index: deliveries_pkey.
WITH p AS (
  SELECT d.event_id, d.consumer
  FROM unnest((:event_ids)::uuid[], (:consumers)::text[], (:generations)::smallint[]) AS k(event_id, consumer, generation)
  JOIN homing.deliveries d USING (event_id, consumer, generation)
  WHERE d.settled_at IS NULL AND d.epoch <> 0 FOR UPDATE OF d SKIP LOCKED)
UPDATE homing.deliveries d SET epoch = 0
FROM p WHERE (d.event_id, d.consumer) = (p.event_id, p.consumer);
