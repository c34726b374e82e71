-- remove_schedule: forget a schedule that the engine does not hold any more. Code that declares it writes it down again when it starts.
-- Parameters: queue, schedule text.
-- Result: schedule; none when it was forgotten already, or resumed meanwhile.
-- Guard: primary key; it was paused first, so that no look gave it back meanwhile. Locks: the row. Index: schedules_pkey.
DELETE FROM homing.schedules WHERE queue = :queue AND schedule = :schedule AND paused_at IS NOT NULL
RETURNING schedule;
