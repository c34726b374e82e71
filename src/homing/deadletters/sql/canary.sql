-- canary: how the first letters of a campaign fare, while it has redriven no more than those.
-- Parameters: campaign uuid.
-- Result: one row: unsettled, died (dead again, of whatever).
-- Guard: none, it only reads. Locks: none. Index: dead_letters_campaign, deliveries_pkey.
SELECT count(*) FILTER (WHERE d.generation = l.generation + 1 AND d.settled_at IS NULL) AS unsettled,
  count(*) FILTER (WHERE d.generation = l.generation + 1 AND d.outcome = 'dead') AS died
FROM homing.dead_letters l
JOIN homing.deliveries d ON d.event_id = l.event_id AND d.consumer = l.consumer
WHERE l.campaign = (:campaign)::uuid;
