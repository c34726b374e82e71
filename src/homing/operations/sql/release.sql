-- release: parked events are routed again, once more if what is wrong with them is still wrong.
-- Parameters: event_ids uuid[].
-- Result: event_id of every event that was parked and is not any more.
-- Guard: parked_error and published_at. Locks: the events, for this statement. Index: outbox_events_pkey.
UPDATE homing.outbox_events SET parked_error = NULL
WHERE id = ANY ((:event_ids)::uuid[]) AND parked_error IS NOT NULL AND published_at IS NULL RETURNING id AS event_id;
