-- parked: events that could not be routed, and why; the oldest first.
-- Parameters: page integer.
-- Result: event_id, topic, created_at, parked_error.
-- Guard: none, it only reads. Locks: none. Index: outbox_events_parked.
SELECT id AS event_id, topic, least(greatest(created_at, 'epoch'), '9999-12-31') AS created_at, parked_error
FROM homing.outbox_events WHERE parked_error IS NOT NULL AND published_at IS NULL ORDER BY id LIMIT (:page)::integer;
