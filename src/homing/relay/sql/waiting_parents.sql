-- waiting_parents: deliveries whose jobs wait for children, to be judged by their age.
-- Parameters: event_ids uuid[]; consumers text[]; generations smallint[], of equal length.
-- Result: event_id, consumer, generation, opened_at, settled (whether it is), now, options of the subscription (JSON text, null when unsubscribed).
-- Guard: none, it only reads. Locks: none. Index: deliveries_pkey, outbox_events_pkey, subscriptions_pkey.
SELECT d.event_id, d.consumer, d.generation, d.opened_at, d.settled_at IS NOT NULL AS settled, clock_timestamp() AS now,
  s.options::text AS options
FROM unnest((:event_ids)::uuid[], (:consumers)::text[], (:generations)::smallint[]) AS k(event_id, consumer, generation)
JOIN homing.deliveries d USING (event_id, consumer, generation)
LEFT JOIN homing.outbox_events o ON o.id = d.event_id
LEFT JOIN homing.subscriptions s ON s.topic = o.topic AND s.consumer = d.consumer;
