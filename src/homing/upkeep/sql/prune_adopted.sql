-- prune_adopted: lock those of the named events that exist: what buried jobs of other producers carried.
-- Parameters: ids uuid[].
-- Result: id. Events that somebody opens a delivery of just now are skipped.
-- Guard: published_at. Locks: the events FOR UPDATE, skipping those held, until the transaction ends. Index: outbox_events_pkey.
SELECT id FROM homing.outbox_events
WHERE id = ANY((:ids)::uuid[]) AND published_at IS NOT NULL
ORDER BY id FOR UPDATE SKIP LOCKED;
