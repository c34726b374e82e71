-- find_schema: say whether the schema exists; creating it "if not exists" would ask for a right that may not be needed.
-- Parameters: none.
-- Result: one row, one boolean.
-- Guard: none, it only reads. Locks: none. Index: the catalogue's own.
SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'homing');
