-- finish_settle: the last statement of a handler's transaction: keep its result, and prove that it is still the same one.
-- Parameters: event_id uuid; consumer text; result text (JSON, or null to leave it).
-- Result: one row with the id of the transaction it ran in, null when none was assigned (the handler ended the real one).
-- Guard: none, the caller compares the ids. Locks: the row this transaction holds already. Index: deliveries_pkey.
WITH kept AS (UPDATE homing.deliveries SET result = (:result)::text::jsonb
  WHERE event_id = :event_id AND consumer = :consumer AND outcome = 'done' AND (:result)::text IS NOT NULL)
SELECT pg_current_xact_id_if_assigned()::text AS transaction_id;
