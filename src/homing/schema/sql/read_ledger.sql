-- Which ledger this is, and the engine that serves it.
-- Parameters: none. Result: ledger_id, engine; no row where the ledger was never named. Locks: none.
SELECT ledger_id, engine FROM homing.ledger;
