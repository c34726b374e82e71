-- bound_locks: how long statements of this transaction wait for a row that another run holds.
-- Parameters: wait text (a duration as PostgreSQL reads it, such as 10s).
-- Result: the value set; it ends with the transaction.
-- Guard: none. Locks: none. Index: none.
SELECT set_config('lock_timeout', :wait, true) AS lock_timeout;
