-- finish_batch: the last statement of a batch's transaction: keep the results, and prove that it is still the same one.
-- Parameters: event_ids uuid[]; consumers text[]; results text[] (JSON or null), of equal length.
-- Result: one row with the id of the transaction it ran in, null when none was assigned.
-- Guard: none, the caller compares the ids. Locks: rows this transaction holds already. Index: deliveries_pkey.
-- Plan: each key is looked up by itself, and USING and a joined outcome tell the planner that little is found: also a young database uses the keys.
WITH k AS MATERIALIZED (
  SELECT d.event_id, d.consumer, d.outcome, u.result
  FROM unnest((:event_ids)::uuid[], (:consumers)::text[], (:results)::text[]) AS u(event_id, consumer, result)
  JOIN LATERAL (
    SELECT o.event_id, o.consumer, o.outcome FROM homing.deliveries o
    WHERE (o.event_id, o.consumer) = (u.event_id, u.consumer) AND o.outcome = 'done' OFFSET 0) d USING (event_id, consumer)
  WHERE u.result IS NOT NULL),
kept AS (
  UPDATE homing.deliveries d SET result = k.result::jsonb
  FROM k WHERE (d.event_id, d.consumer, d.outcome) = (k.event_id, k.consumer, k.outcome))
SELECT pg_current_xact_id_if_assigned()::text AS transaction_id;
