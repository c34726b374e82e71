-- Wait for every other migration of this database to end, and keep later ones waiting until our transaction ends.
-- Parameters: none. Result: one row. Lock: advisory, of the transaction, so that it also holds behind a pooler.
SELECT pg_advisory_xact_lock(hashtextextended('homing.migrate', 0));
