-- end_campaign: stop, finish or pause a campaign; stopped and finished are final.
-- Parameters: campaign uuid; state text (paused, stopped or finished); why text or null; runner uuid (null = a person, whoever holds it).
-- Result: its row: id, filter (JSON text), started_by, reason, rate, canary, canary_passed_at, stop_after, state, last_letter, cursor, matched, redriven,
-- refused (JSON text), died_again, started_at, ended_at, end_reason. No row when it is over already, or another runner holds it.
-- Guard: state and lease. Locks: the row, until the transaction ends. Index: redrive_campaigns_pkey, dead_letters_campaign.
UPDATE homing.redrive_campaigns SET
  redriven = (SELECT count(*) FROM homing.dead_letters l WHERE l.campaign = (:campaign)::uuid),
  state = (:state)::text, end_reason = (:why)::text, runner = NULL, runner_until = '-infinity',
  ended_at = CASE WHEN (:state)::text = 'paused' THEN NULL ELSE clock_timestamp() END
WHERE id = (:campaign)::uuid
  AND (state = 'running' OR (state = 'paused' AND (:state)::text = 'stopped'))
  AND ((:runner)::uuid IS NULL OR runner = (:runner)::uuid)
RETURNING id, filter::text AS filter, started_by, reason, rate, canary, canary_passed_at, stop_after, state, last_letter, cursor, matched,
  redriven, refused::text AS refused, died_again, started_at, ended_at, end_reason;
