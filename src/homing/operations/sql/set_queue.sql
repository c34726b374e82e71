-- set_queue: what a person sets for a queue: it holds until the code declares something new, and it survives the engine's data.
-- Parameters: queue text; settings text (a JSON object of the fields that change; null takes a bound away).
-- Result: queue; none when nobody registered it.
-- Guard: primary key. Locks: the queue's row, until the end of the transaction. Index: queues_pkey.
UPDATE homing.queues SET settings = settings || (:settings)::jsonb WHERE queue = :queue RETURNING queue;
