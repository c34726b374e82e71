-- name_ledger: give the ledger its identity and its engine, once.
-- Parameters: engine text (redis or postgres).
-- Result: nothing.
-- Guard: the row that exists stays as it is. Locks: the one row. Index: ledger_pkey.
INSERT INTO homing.ledger (engine) VALUES (:engine) ON CONFLICT (only_row) DO NOTHING;
