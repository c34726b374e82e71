-- prune_candidates: lock a batch of routed events that are old enough, in the order of their ids (version 7: time first).
-- Parameters: after uuid (the last id of the batch before); before uuid (the id that the retention's end would have had); page integer.
-- Result: id. Events that somebody opens a delivery of just now are skipped.
-- Guard: published_at. Locks: the events FOR UPDATE, skipping those held, until the transaction ends. Index: outbox_events_pkey.
SELECT id FROM homing.outbox_events
WHERE id > :after AND id < :before AND published_at IS NOT NULL
ORDER BY id LIMIT (:page)::integer FOR UPDATE SKIP LOCKED;
