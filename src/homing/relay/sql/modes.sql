-- modes: which of these deliveries are for other systems, and what was promised there. A retired route still says it.
-- Parameters: event_ids uuid[]; consumers text[], of equal length.
-- Result: event_id, consumer, mode (foreign or elsewhere); nothing for deliveries of ours.
-- Guard: none, it only reads. Locks: none. Index: outbox_events_pkey, for consumers of other systems alone.
SELECT k.event_id, k.consumer, s.mode
FROM unnest((:event_ids)::uuid[], (:consumers)::text[]) AS k(event_id, consumer)
JOIN homing.subscriptions s ON s.consumer = k.consumer AND s.mode IN ('foreign', 'elsewhere')
JOIN homing.outbox_events o ON o.id = k.event_id AND o.topic = s.topic;
