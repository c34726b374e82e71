-- lock_migrations: wait for every other migration of this database to end, and keep later ones waiting until ours ends.
-- Parameters: none.
-- Result: one row, without meaning.
-- Guard: lock_timeout (limit_waiting). Locks: advisory, of the transaction, so that it holds behind a pooler too. Index: none.
SELECT pg_advisory_xact_lock(hashtextextended('homing.migrate', 0));
