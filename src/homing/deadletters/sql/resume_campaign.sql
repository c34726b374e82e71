-- resume_campaign: a paused campaign runs again, from where it was.
-- Parameters: campaign uuid.
-- Result: its row: id, filter (JSON text), started_by, reason, rate, canary, canary_passed_at, stop_after, state, last_letter, cursor, matched, redriven,
-- refused (JSON text), died_again, started_at, ended_at, end_reason. No row when it was not paused.
-- Guard: state. Locks: the row, until the transaction ends. Index: redrive_campaigns_pkey.
UPDATE homing.redrive_campaigns SET state = 'running', end_reason = NULL
WHERE id = (:campaign)::uuid AND state = 'paused'
RETURNING id, filter::text AS filter, started_by, reason, rate, canary, canary_passed_at, stop_after, state, last_letter, cursor, matched,
  redriven, refused::text AS refused, died_again, started_at, ended_at, end_reason;
