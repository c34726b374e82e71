-- Let a ledger that was never used change its engine: nobody's job can be waiting in the other one.
-- Parameters: :engine is redis or postgres. Guard: no event was ever recorded, no delivery opened, no process registered.
UPDATE homing.ledger SET engine = :engine
WHERE engine <> :engine
  AND NOT EXISTS (SELECT FROM homing.outbox_events)
  AND NOT EXISTS (SELECT FROM homing.deliveries)
  AND NOT EXISTS (SELECT FROM homing.workers);
