-- payloads: what is needed to make the jobs of some deliveries again.
-- Parameters: event_ids uuid[]; consumers text[], of equal length.
-- Result: event_id, consumer, queue, job_name, generation, opened_at, payload, headers (JSON text), created_at, options (JSON text) and mode, both null when unsubscribed.
-- Payload and version of a delivery that a person edited are its own; all others have their event's.
-- Guard: none, it only reads. Locks: none. Index: deliveries_pkey, outbox_events_pkey, subscriptions_pkey.
-- Plan: each key is looked up by itself (OFFSET 0), also where a young database would rather read the whole table.
SELECT d.event_id, d.consumer, d.queue, d.job_name, d.generation, d.opened_at,
  coalesce(d.edited->'payload', o.payload)::text AS payload,
  CASE WHEN d.edited IS NULL THEN o.headers
    ELSE (o.headers - 'raw') || jsonb_build_object('version', d.edited->'version') END::text AS headers,
  least(greatest(o.created_at, 'epoch'), '9999-12-31') AS created_at, s.options::text AS options, s.mode
FROM unnest((:event_ids)::uuid[], (:consumers)::text[]) AS k(event_id, consumer)
CROSS JOIN LATERAL (SELECT * FROM homing.deliveries d WHERE (d.event_id, d.consumer) = (k.event_id, k.consumer) OFFSET 0) d
CROSS JOIN LATERAL (SELECT * FROM homing.outbox_events o WHERE o.id = d.event_id OFFSET 0) o
LEFT JOIN homing.subscriptions s ON s.topic = o.topic AND s.consumer = d.consumer;
