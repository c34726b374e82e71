-- standing: why a letter can or cannot be redriven: the letter, its event and its delivery as they are now.
-- Parameters: letter bigint.
-- Result: id, closed_as, closed_by, closed_at, campaign, generation; event_there; outcome and row_generation (null without a delivery). No row without a letter.
-- Guard: none, it only reads. Locks: none. Index: dead_letters_pkey, outbox_events_pkey, deliveries_pkey.
SELECT l.id, l.closed_as, l.closed_by, l.closed_at, l.campaign, l.generation, o.id IS NOT NULL AS event_there,
  d.outcome, d.generation AS row_generation
FROM homing.dead_letters l
LEFT JOIN homing.outbox_events o ON o.id = l.event_id
LEFT JOIN homing.deliveries d ON d.event_id = l.event_id AND d.consumer = l.consumer
WHERE l.id = (:letter)::bigint;
