-- limit_waiting: bound how long each later statement of this transaction waits for a lock.
-- Parameters: limit_text text (a duration as PostgreSQL writes it, such as 5000ms).
-- Result: one row, the duration.
-- Guard: ends with the transaction. Locks: none. Index: none.
SELECT set_config('lock_timeout', :limit_text, true);
