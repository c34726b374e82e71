-- list_migrations: the migrations that were applied, oldest first.
-- Parameters: none.
-- Result: number, name, sha256.
-- Guard: none, it only reads. Locks: none. Index: migrations_pkey.
SELECT number, name, sha256 FROM homing.migrations ORDER BY number;
