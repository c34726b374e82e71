-- others: the consumers that live in other systems, and what may be promised of them.
-- Parameters: none.
-- Result: consumer, mode (foreign or elsewhere); a retired one is among them as long as it has deliveries.
-- Guard: none, it only reads. Locks: none. Index: none needed, a row per subscription.
SELECT DISTINCT consumer, mode FROM homing.subscriptions WHERE mode IN ('foreign', 'elsewhere');
