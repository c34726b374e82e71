-- recount: how many letters a campaign has redriven, from the letters: after a runner died, and whenever a count is in doubt.
-- Parameters: campaign uuid.
-- Result: its row: id, filter (JSON text), started_by, reason, rate, canary, canary_passed_at, stop_after, state, last_letter, cursor, matched, redriven,
-- refused (JSON text), died_again, started_at, ended_at, end_reason.
-- Guard: none, a count. Locks: the row, for this statement. Index: dead_letters_campaign, redrive_campaigns_pkey.
UPDATE homing.redrive_campaigns SET redriven = (SELECT count(*) FROM homing.dead_letters l WHERE l.campaign = (:campaign)::uuid)
WHERE id = (:campaign)::uuid
RETURNING id, filter::text AS filter, started_by, reason, rate, canary, canary_passed_at, stop_after, state, last_letter, cursor, matched,
  redriven, refused::text AS refused, died_again, started_at, ended_at, end_reason;
