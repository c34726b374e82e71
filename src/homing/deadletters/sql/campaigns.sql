-- campaigns: the newest campaigns, or one of them, with how the deliveries that they redrove fare now.
-- Parameters: campaign uuid (null = all); most integer (rows).
-- Result: per campaign: id, filter (JSON text), started_by, reason, rate, canary, canary_passed_at, stop_after, state, last_letter, cursor, matched, redriven,
-- refused (JSON text), died_again, started_at, ended_at, end_reason;
-- and, counted now: pending, done, dead_again (of whatever). Deliveries that were redriven once more since count for the later campaign alone.
-- Guard: none, it only reads. Locks: none. Index: redrive_campaigns_pkey, dead_letters_campaign, deliveries_pkey.
SELECT c.id, c.filter::text AS filter, c.started_by, c.reason, c.rate, c.canary, c.canary_passed_at, c.stop_after, c.state,
  c.last_letter, c.cursor, c.matched, c.redriven, c.refused::text AS refused, c.died_again, c.started_at, c.ended_at, c.end_reason,
  n.pending, n.done, n.dead_again
FROM homing.redrive_campaigns c
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE d.settled_at IS NULL) AS pending, count(*) FILTER (WHERE d.outcome = 'done') AS done,
    count(*) FILTER (WHERE d.outcome = 'dead') AS dead_again
  FROM homing.dead_letters l
  JOIN homing.deliveries d ON d.event_id = l.event_id AND d.consumer = l.consumer AND d.generation = l.generation + 1
  WHERE l.campaign = c.id) n
WHERE (:campaign)::uuid IS NULL OR c.id = (:campaign)::uuid
ORDER BY c.started_at DESC LIMIT (:most)::integer;
