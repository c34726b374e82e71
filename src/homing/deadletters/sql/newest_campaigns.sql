-- newest_campaigns: the newest campaigns as their rows have them; nothing is counted, however many letters they took.
-- Parameters: most integer (rows).
-- Result: per campaign: id, filter (JSON text), started_by, reason, rate, canary, canary_passed_at, stop_after, state, last_letter, cursor, matched, redriven,
-- refused (JSON text), died_again, started_at, ended_at, end_reason.
-- Guard: none, it only reads. Locks: none. Index: none, the table has a row per campaign.
SELECT c.id, c.filter::text AS filter, c.started_by, c.reason, c.rate, c.canary, c.canary_passed_at, c.stop_after, c.state,
  c.last_letter, c.cursor, c.matched, c.redriven, c.refused::text AS refused, c.died_again, c.started_at, c.ended_at, c.end_reason
FROM homing.redrive_campaigns c
ORDER BY c.started_at DESC LIMIT (:most)::integer;
