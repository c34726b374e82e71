-- pass_canary: the first letters of a campaign came through: the rest may follow.
-- Parameters: campaign, runner uuid.
-- Result: nothing of interest.
-- Guard: state and lease. Locks: the row, for this statement. Index: redrive_campaigns_pkey.
UPDATE homing.redrive_campaigns SET canary_passed_at = clock_timestamp()
WHERE id = (:campaign)::uuid AND state = 'running' AND runner = (:runner)::uuid AND canary_passed_at IS NULL;
