-- held: what a queue must hold, in short: enough to see what the engine has too many, too few, or further on.
-- Parameters: queue text.
-- Result: schedule, source, paused (boolean), next_ms; in the order of their names.
-- Guard: none, it only reads. Locks: none. Index: schedules_pkey.
SELECT schedule, source, paused_at IS NOT NULL AS paused, next_ms FROM homing.schedules WHERE queue = :queue ORDER BY schedule;
