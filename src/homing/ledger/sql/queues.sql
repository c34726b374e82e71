-- queues: every queue that is registered, by code of any version.
-- Parameters: none.
-- Result: queue, epoch, settings (JSON text), in the order of their names.
-- Guard: none, it only reads. Locks: none. Index: none needed, a row per queue.
SELECT queue, epoch, settings::text AS settings FROM homing.queues ORDER BY queue;
