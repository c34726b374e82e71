-- open_jobs: which of these jobs have a delivery that is not settled, so that the look would make them again.
-- Parameters: event_ids uuid[]; consumers text[]; generations smallint[], of equal length.
-- Result: event_id, consumer, generation of each.
-- Guard: none, it only reads. Locks: none. Index: deliveries_pkey.
-- Plan: each key is looked up by itself (OFFSET 0), also where a young database would rather read the whole table.
SELECT d.event_id, d.consumer, d.generation
FROM unnest((:event_ids)::uuid[], (:consumers)::text[], (:generations)::smallint[]) AS k(event_id, consumer, generation)
CROSS JOIN LATERAL (
  SELECT * FROM homing.deliveries d
  WHERE (d.event_id, d.consumer, d.generation) = (k.event_id, k.consumer, k.generation) AND d.outcome IS NULL OFFSET 0) d;
