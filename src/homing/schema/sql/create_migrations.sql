-- create_migrations: make the list of applied migrations.
-- Parameters: none.
-- Result: nothing.
-- Guard: the caller holds lock_migrations. Locks: none beyond it. Index: none.
CREATE TABLE IF NOT EXISTS homing.migrations (
  number integer PRIMARY KEY CHECK (number > 0),
  name text NOT NULL,
  sha256 text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp());
