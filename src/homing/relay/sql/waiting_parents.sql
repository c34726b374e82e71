-- waiting_parents: deliveries whose jobs wait for children, to be judged by their age.
-- Parameters: event_ids uuid[]; consumers text[]; generations smallint[], of equal length.
-- Result: event_id, consumer, generation, opened_at, settled (whether it is), now, options of the subscription (JSON text, null when unsubscribed).
-- Guard: none, it only reads. Locks: none. Index: deliveries_pkey, outbox_events_pkey, subscriptions_pkey.
-- Plan: each key is looked up by itself (OFFSET 0), also where a young database would rather read the whole table.
SELECT d.event_id, d.consumer, d.generation, d.opened_at, d.settled_at IS NOT NULL AS settled, clock_timestamp() AS now,
  s.options::text AS options
FROM unnest((:event_ids)::uuid[], (:consumers)::text[], (:generations)::smallint[]) AS k(event_id, consumer, generation)
CROSS JOIN LATERAL (
  SELECT * FROM homing.deliveries d
  WHERE (d.event_id, d.consumer, d.generation) = (k.event_id, k.consumer, k.generation) OFFSET 0) d
LEFT JOIN LATERAL (SELECT o.topic FROM homing.outbox_events o WHERE o.id = d.event_id OFFSET 0) o ON true
LEFT JOIN homing.subscriptions s ON s.topic = o.topic AND s.consumer = d.consumer;
