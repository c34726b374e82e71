-- read_ledger: which ledger this is, and the engine that serves it.
-- Parameters: none.
-- Result: ledger_id, engine; no row where the ledger was never named.
-- Guard: none, it only reads. Locks: none. Index: none, one row.
SELECT ledger_id, engine FROM homing.ledger;
