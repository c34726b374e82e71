-- indexes: every index on the ledger's tables.
-- Parameters: none.
-- Result: name, valid (false after a failed concurrent build, and then no statement uses it).
-- Guard: none, it only reads. Locks: none. Index: none, the catalogue.
SELECT c.relname::text AS name, i.indisvalid AND i.indisready AS valid
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'homing';
