-- read: the gate's question: what does the ledger say of these deliveries now?
-- Parameters: event_ids uuid[]; consumers text[], of equal length.
-- Result: one row per delivery that exists, with the id of its open dead letter and the database's time; missing rows are missing.
-- Guard: none, it only reads. Locks: none. Index: deliveries_pkey, dead_letters_open.
SELECT d.event_id, d.consumer, d.generation, d.outcome, d.opened_at, d.result::text AS result,
  (SELECT l.id FROM homing.dead_letters l
   WHERE l.event_id = d.event_id AND l.consumer = d.consumer AND l.closed_at IS NULL) AS letter,
  clock_timestamp() AS now
FROM unnest((:event_ids)::uuid[], (:consumers)::text[]) AS k(event_id, consumer)
JOIN homing.deliveries d USING (event_id, consumer);
