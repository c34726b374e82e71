-- The migrations that were applied, oldest first.
-- Parameters: none. Result: number, name, sha256. Locks: none.
SELECT number, name, sha256 FROM homing.migrations ORDER BY number;
