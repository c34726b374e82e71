-- mirror: keep in the ledger whether a queue is paused in the engine, so that the next incarnation of its data is paused as well.
-- Parameters: queue text; epoch integer (of the incarnation that was read); paused boolean.
-- Result: one row when it changed; none when it was known, or when a newer epoch has begun, in which the ledger tells the engine.
-- Guard: epoch, the setting itself. Locks: the queue's row, for this statement. Index: queues_pkey.
UPDATE homing.queues SET settings = settings || jsonb_build_object('paused', (:paused)::boolean)
WHERE queue = :queue AND epoch = (:epoch)::integer AND coalesce(settings->'paused', 'false') <> to_jsonb((:paused)::boolean)
RETURNING queue;
