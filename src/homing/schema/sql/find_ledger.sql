-- Say whether this database holds a ledger at all, and which database it is.
-- Parameters: none. Result: one row: database, found. Locks: none.
SELECT current_database() AS database,
  to_regclass('homing.migrations') IS NOT NULL AND to_regclass('homing.ledger') IS NOT NULL AS found;
