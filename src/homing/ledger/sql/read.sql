-- read: the gate's question: what does the ledger say of these deliveries now?
-- Parameters: rows jsonb (an array of event_id and consumer; one text costs less to send than arrays).
-- Result: one row per delivery that exists, with the id of its open dead letter and the database's time; missing rows are missing.
-- Guard: none, it only reads. Locks: none. Index: deliveries_pkey, dead_letters_history.
-- Plan: each key is looked up by itself (OFFSET 0), also where a young database would rather read the whole table.
SELECT d.event_id, d.consumer, d.generation, d.outcome, d.opened_at, d.result::text AS result,
  (SELECT l.id FROM homing.dead_letters l
   WHERE l.event_id = d.event_id AND l.consumer = d.consumer AND l.closed_as IS NULL) AS letter,
  clock_timestamp() AS now
FROM jsonb_to_recordset((:rows)::jsonb) AS k(event_id uuid, consumer text)
CROSS JOIN LATERAL (SELECT * FROM homing.deliveries d WHERE (d.event_id, d.consumer) = (k.event_id, k.consumer) OFFSET 0) d;
