-- start_campaign: write a campaign down; it runs from now on, in the hands of whoever started it until the lease ends.
-- Parameters: campaign uuid; filter (JSON), started_by, reason text; rate float8 (letters per second); canary integer; stop_after integer or null;
-- matched bigint; runner uuid or null; lease_seconds float8.
-- Result: its row: id, filter (JSON text), started_by, reason, rate, canary, canary_passed_at, stop_after, state, last_letter, cursor, matched, redriven,
-- refused (JSON text), died_again, started_at, ended_at, end_reason.
-- Guard: none. Locks: the new row. Index: dead_letters_pkey (its newest letter).
INSERT INTO homing.redrive_campaigns
  (id, filter, started_by, reason, rate, canary, stop_after, matched, last_letter, runner, runner_until)
SELECT (:campaign)::uuid, (:filter)::text::jsonb, (:started_by)::text, (:reason)::text, (:rate)::float8, (:canary)::integer,
  (:stop_after)::integer, (:matched)::bigint, coalesce((SELECT max(l.id) FROM homing.dead_letters l), 0), (:runner)::uuid,
  clock_timestamp() + make_interval(secs => (:lease_seconds)::float8)
RETURNING id, filter::text AS filter, started_by, reason, rate, canary, canary_passed_at, stop_after, state, last_letter, cursor, matched,
  redriven, refused::text AS refused, died_again, started_at, ended_at, end_reason;
