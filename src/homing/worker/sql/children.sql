-- children: what the ledger says of the children of a job, and of the job itself.
-- Parameters: event_ids uuid[] (the children's inbox ids, and the event of the job).
-- Result: one row per delivery of these events: event_id, consumer, generation, outcome, opened_at, result (JSON text), and of its open dead
-- letter id, time and error, null without one. A child that has not ended has no row.
-- Guard: none, it only reads. Locks: none. Index: deliveries_pkey, dead_letters_history.
-- Plan: each key is looked up by itself (OFFSET 0), also where a young database would rather read the whole table.
SELECT d.event_id, d.consumer, d.generation, d.outcome, d.opened_at, d.result::text AS result,
  l.id AS letter, l.failed_at, concat_ws(': ', l.error->>'class', nullif(l.error->>'text', '')) AS error
FROM unnest((:event_ids)::uuid[]) AS k(event_id)
CROSS JOIN LATERAL (SELECT * FROM homing.deliveries d WHERE d.event_id = k.event_id OFFSET 0) d
LEFT JOIN LATERAL (
  SELECT * FROM homing.dead_letters l
  WHERE (l.event_id, l.consumer) = (d.event_id, d.consumer) AND l.closed_as IS NULL OFFSET 0) l ON true;
