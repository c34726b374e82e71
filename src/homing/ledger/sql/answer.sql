-- answer: whether the ledger answers and can be written to, asked when a run could not be settled.
-- Parameters: none.
-- Result: one row; writable is false on a standby and where transactions are read-only.
-- Guard: none. Locks: none. Index: none.
SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off' AS writable;
