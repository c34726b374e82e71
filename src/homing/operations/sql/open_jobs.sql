-- open_jobs: which of these jobs have a delivery that is not settled, so that the look would make them again.
-- Parameters: event_ids uuid[]; consumers text[]; generations smallint[], of equal length.
-- Result: event_id, consumer, generation of each.
-- Guard: none, it only reads. Locks: none. Index: deliveries_pkey.
SELECT d.event_id, d.consumer, d.generation
FROM unnest((:event_ids)::uuid[], (:consumers)::text[], (:generations)::smallint[]) AS k(event_id, consumer, generation)
JOIN homing.deliveries d USING (event_id, consumer, generation)
WHERE d.settled_at IS NULL;
