-- Make the list of applied migrations.
-- Parameters: none. Guard: the caller holds the migration lock.
CREATE TABLE IF NOT EXISTS homing.migrations (
  number integer PRIMARY KEY CHECK (number > 0),
  name text NOT NULL,
  sha256 text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp());
