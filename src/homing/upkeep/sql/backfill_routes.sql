-- backfill_routes: the routes there are, so that a backfill can be refused with what it could have been.
-- Parameters: none.
-- Result: topic, consumer, retired_at.
-- Guard: none. Locks: none. Index: none, the table has a row per route.
SELECT topic, consumer, retired_at FROM homing.subscriptions ORDER BY topic, consumer;
