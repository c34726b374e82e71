-- change_engine: let a ledger that was never used change its engine: nobody's job can be waiting in the other one.
-- Parameters: engine text (redis or postgres).
-- Result: nothing.
-- Guard: no event was recorded, no delivery opened, no process registered. Locks: the one row. Index: none, the tables are empty.
UPDATE homing.ledger SET engine = :engine
WHERE engine <> :engine
  AND NOT EXISTS (SELECT FROM homing.outbox_events)
  AND NOT EXISTS (SELECT FROM homing.deliveries)
  AND NOT EXISTS (SELECT FROM homing.workers);
