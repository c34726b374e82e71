-- due_campaigns: the running campaigns that this runner holds or may take, the oldest first.
-- Parameters: runner uuid; most integer (rows).
-- Result: id.
-- Guard: none, hold_campaign guards. Locks: none. Index: redrive_campaigns_running.
SELECT id FROM homing.redrive_campaigns
WHERE state = 'running' AND (runner = (:runner)::uuid OR runner_until <= now())
ORDER BY started_at LIMIT (:most)::integer;
