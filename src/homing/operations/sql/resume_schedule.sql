-- resume_schedule: let the engine hold a schedule again.
-- Parameters: queue, schedule text.
-- Result: schedule; none when there is no such schedule, or it is not paused.
-- Guard: primary key, paused_at. Locks: the row, until the end of the transaction. Index: schedules_pkey.
UPDATE homing.schedules SET paused_at = NULL WHERE queue = :queue AND schedule = :schedule AND paused_at IS NOT NULL
RETURNING schedule;
