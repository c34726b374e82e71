-- find_transaction: which ledger a handler's transaction would settle in, and which transaction it is.
-- Parameters: none.
-- Result: ledger_id, transaction_id; asked twice in one transaction, the second must be the same, or every statement commits by itself.
-- Guard: none, it only reads. Locks: none. Index: none, one row.
SELECT ledger_id, pg_current_xact_id()::text AS transaction_id FROM homing.ledger;
