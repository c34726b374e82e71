-- hold_campaign: take or renew the lease of a running campaign; it saves work and paces, while the guard of each letter keeps it to once.
-- Parameters: campaign, runner uuid; lease_seconds float8.
-- Result: its row: id, filter (JSON text), started_by, reason, rate, canary, canary_passed_at, stop_after, state, last_letter, cursor, matched, redriven,
-- refused (JSON text), died_again, started_at, ended_at, end_reason. No row when it does not run, or somebody else holds it.
-- Guard: state and lease. Locks: the row, for this statement. Index: redrive_campaigns_pkey.
UPDATE homing.redrive_campaigns
SET runner = (:runner)::uuid, runner_until = clock_timestamp() + make_interval(secs => (:lease_seconds)::float8)
WHERE id = (:campaign)::uuid AND state = 'running' AND (runner = (:runner)::uuid OR runner_until <= now())
RETURNING id, filter::text AS filter, started_by, reason, rate, canary, canary_passed_at, stop_after, state, last_letter, cursor, matched,
  redriven, refused::text AS refused, died_again, started_at, ended_at, end_reason;
