-- find_ledger: say whether this database holds a ledger at all, and which database it is.
-- Parameters: none.
-- Result: one row: database text, found boolean.
-- Guard: none, it only reads. Locks: none. Index: the catalogue's own.
SELECT current_database() AS database,
  to_regclass('homing.migrations') IS NOT NULL AND to_regclass('homing.ledger') IS NOT NULL AS found;
