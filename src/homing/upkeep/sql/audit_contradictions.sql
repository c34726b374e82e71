-- audit_contradictions: rows that say what cannot be true together; each kind is counted, with one example.
-- Parameters: first_id uuid (the id that the window's first event would have).
-- Result: kind, consumer, rows, example (an event's id):
--   missing: an event of the window was routed after an active subscription had been there for a minute, and has no delivery for it (nor
--     under one of its former names); a route that was retired in between looks the same.
--   silent death: a delivery of the window is dead, and no letter of that death is open or was dismissed.
--   letter of the living: an open letter whose delivery is not dead; a torn one may be done.
--   no payload: an unsettled delivery whose event is gone.
-- Guard: none, it only reads. Locks: none. Index: outbox_events_pkey, deliveries_pkey, dead_letters_history, dead_letters_unclosed,
--   deliveries_by_consumer.
WITH missing AS (
  SELECT 'missing' AS kind, s.consumer, o.id AS event_id
  FROM homing.outbox_events o JOIN homing.subscriptions s
    ON s.topic = o.topic AND s.retired_at IS NULL AND s.registered_at + interval '1 minute' < o.published_at
  WHERE o.id >= :first_id AND o.published_at IS NOT NULL AND NOT EXISTS (
    SELECT FROM homing.deliveries d WHERE d.event_id = o.id AND d.consumer = s.consumer) AND NOT EXISTS (
    SELECT FROM homing.deliveries d WHERE d.event_id = o.id AND d.consumer = ANY(s.aliases))),
silent AS (
  SELECT 'silent death', d.consumer, d.event_id FROM homing.deliveries d
  WHERE d.event_id >= :first_id AND d.outcome = 'dead' AND NOT EXISTS (
    SELECT FROM homing.dead_letters l WHERE l.event_id = d.event_id AND l.consumer = d.consumer AND l.generation = d.generation
      AND (l.closed_at IS NULL OR l.closed_as = 'dismissed'))),
living AS (
  SELECT 'letter of the living', l.consumer, l.event_id FROM homing.dead_letters l
  LEFT JOIN homing.deliveries d USING (event_id, consumer)
  WHERE l.closed_at IS NULL AND d.outcome IS DISTINCT FROM 'dead' AND NOT (l.kind = 'torn' AND d.outcome IS NOT DISTINCT FROM 'done')),
bare AS (
  SELECT 'no payload', d.consumer, d.event_id FROM homing.deliveries d
  WHERE d.settled_at IS NULL AND NOT EXISTS (SELECT FROM homing.outbox_events o WHERE o.id = d.event_id))
SELECT f.kind, f.consumer, count(*) AS rows, min(f.event_id::text) AS example
FROM (SELECT * FROM missing UNION ALL SELECT * FROM silent UNION ALL SELECT * FROM living UNION ALL SELECT * FROM bare) f
GROUP BY f.kind, f.consumer ORDER BY f.kind, f.consumer;
