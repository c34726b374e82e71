-- event: one recorded event, with its payload only where somebody asked for it.
-- Parameters: event_id uuid; payload boolean (whether to return it).
-- Result: event_id, topic, aggregate_id, created_at, available_at, published_at, parked_error, routable, headers (JSON text), payload (JSON
-- text or null), payload_bytes; no row without an event.
-- Guard: none, it only reads. Locks: none. Index: outbox_events_pkey.
SELECT o.id AS event_id, o.topic, o.aggregate_id, o.parked_error, o.headers::text AS headers,
  CASE WHEN (:payload)::boolean THEN o.payload::text END AS payload, octet_length(o.payload::text) AS payload_bytes,
  EXISTS (SELECT FROM homing.subscriptions s WHERE s.topic = o.topic AND s.retired_at IS NULL) AS routable,
  least(greatest(o.created_at, 'epoch'), '9999-12-31') AS created_at,
  least(greatest(o.available_at, 'epoch'), '9999-12-31') AS available_at,
  nullif(least(greatest(o.published_at, 'epoch'), '9999-12-31'), 'epoch') AS published_at
FROM homing.outbox_events o WHERE o.id = (:event_id)::uuid;
