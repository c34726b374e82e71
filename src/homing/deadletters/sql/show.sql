-- show: one dead letter with everything, and its delivery and event as they are now.
-- Parameters: letter bigint.
-- Result: every column of the letter (data, error as JSON text); outcome, row_generation, opened_at, settled_at, edited (JSON text) of the delivery;
-- topic, payload, headers (JSON text), recorded_at of the event, null where it is gone. No row without a letter.
-- Guard: none, it only reads. Locks: none. Index: dead_letters_pkey, deliveries_pkey, outbox_events_pkey.
SELECT l.id, l.event_id, l.consumer, l.generation, l.queue, l.job_name, l.job_id, l.kind, l.data::text AS data, l.error::text AS error,
  l.fingerprint, l.attempts_made, l.failed_at, l.closed_at, l.closed_as, l.closed_by, l.closed_why, l.campaign,
  d.outcome, d.generation AS row_generation, d.opened_at, d.settled_at, d.edited::text AS edited,
  o.topic, o.payload::text AS payload, o.headers::text AS headers, o.created_at AS recorded_at
FROM homing.dead_letters l
LEFT JOIN homing.deliveries d ON d.event_id = l.event_id AND d.consumer = l.consumer
LEFT JOIN homing.outbox_events o ON o.id = l.event_id
WHERE l.id = (:letter)::bigint;
