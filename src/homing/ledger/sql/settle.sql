-- settle: mark a delivery done, as the first statement of the handler's transaction (the caller's; never committed here).
-- Parameters: event_id uuid; consumer text; generation smallint.
-- Result: the transaction's id when the row was pending; no row otherwise, and then the gate decides (see gate.py).
-- Guard: generation and outcome. Locks: this one row until the handler's transaction ends. Index: deliveries_pkey.
-- Plan: the guard is outcome, which no partial index knows: also a young database uses the key.
UPDATE homing.deliveries SET outcome = 'done', settled_at = clock_timestamp()
WHERE event_id = :event_id AND consumer = :consumer AND generation = :generation AND outcome IS NULL
RETURNING pg_current_xact_id()::text AS transaction_id;
