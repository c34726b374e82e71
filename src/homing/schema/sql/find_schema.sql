-- Say whether the schema exists; creating one "if not exists" would ask for a right that it does not need.
-- Parameters: none. Result: one row, one boolean. Locks: none.
SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'homing');
