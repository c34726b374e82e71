-- finish_batch: the last statement of a batch's transaction: keep the results, and prove that it is still the same one.
-- Parameters: event_ids uuid[]; consumers text[]; results text[] (JSON or null), of equal length.
-- Result: one row with the id of the transaction it ran in, null when none was assigned.
-- Guard: none, the caller compares the ids. Locks: rows this transaction holds already. Index: deliveries_pkey.
WITH kept AS (
  UPDATE homing.deliveries d SET result = k.result::jsonb
  FROM unnest((:event_ids)::uuid[], (:consumers)::text[], (:results)::text[]) AS k(event_id, consumer, result)
  WHERE (d.event_id, d.consumer) = (k.event_id, k.consumer) AND d.outcome = 'done' AND k.result IS NOT NULL)
SELECT pg_current_xact_id_if_assigned()::text AS transaction_id;
