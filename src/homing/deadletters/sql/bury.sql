-- bury: a delivery is dead: settle its row and keep the evidence, in one statement, after the lease was extended.
-- Parameters: event_id uuid; consumer text; generation smallint; job_id, kind, data (JSON), error (JSON), fingerprint text; attempts_made integer.
-- Result: the letter's id; no row when the delivery is settled or of another generation, and then the gate decides.
-- Guard: generation and outcome. Locks: the row, for this statement. Index: deliveries_pkey, dead_letters_open.
-- Plan: the guard is outcome, which no partial index knows: also a young database uses the key.
WITH d AS (
  UPDATE homing.deliveries SET outcome = 'dead', settled_at = clock_timestamp()
  WHERE event_id = :event_id AND consumer = :consumer AND generation = :generation AND outcome IS NULL
  RETURNING event_id, consumer, generation, queue, job_name)
INSERT INTO homing.dead_letters
  (event_id, consumer, generation, queue, job_name, job_id, kind, data, error, fingerprint, attempts_made)
SELECT event_id, consumer, generation, queue, job_name, :job_id, :kind, (:data)::text::jsonb, (:error)::text::jsonb,
  :fingerprint, :attempts_made
FROM d RETURNING id;
