-- children: what the ledger says of the children of a job, and of the job itself.
-- Parameters: event_ids uuid[] (the children's inbox ids, and the event of the job).
-- Result: one row per delivery of these events: event_id, consumer, generation, outcome, opened_at, result (JSON text), and of its open dead
-- letter id, time and error, null without one. A child that has not ended has no row.
-- Guard: none, it only reads. Locks: none. Index: deliveries_pkey, dead_letters_open.
SELECT d.event_id, d.consumer, d.generation, d.outcome, d.opened_at, d.result::text AS result,
  l.id AS letter, l.failed_at, concat_ws(': ', l.error->>'class', nullif(l.error->>'text', '')) AS error
FROM unnest((:event_ids)::uuid[]) AS k(event_id)
JOIN homing.deliveries d USING (event_id)
LEFT JOIN homing.dead_letters l
  ON l.event_id = d.event_id AND l.consumer = d.consumer AND l.closed_at IS NULL;
