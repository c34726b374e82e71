-- epochs: the epoch of one identity beside the queue's current one: smaller means a deposed server.
-- Parameters: queue text; identity text.
-- Result: one row (identity_epoch, null when unknown; current_epoch), none when the queue is not registered.
-- Guard: none, it only reads. Locks: none. Index: queues_pkey, queue_epochs_pkey.
SELECT q.epoch AS current_epoch,
  (SELECT e.epoch FROM homing.queue_epochs e WHERE e.queue = q.queue AND e.identity = :identity) AS identity_epoch
FROM homing.queues q WHERE q.queue = :queue;
