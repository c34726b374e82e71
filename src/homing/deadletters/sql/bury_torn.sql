-- bury_torn: a handler ended the transaction past the guard and then failed: the row says done, the effect may be half there.
-- Parameters: event_id uuid; consumer, job_id, data (JSON), error (JSON), fingerprint text; attempts_made integer.
-- Result: the letter's id; no row when the delivery is not done, or has an open letter already.
-- Guard: outcome, dead_letters_open. Locks: the new letter. Index: deliveries_pkey, dead_letters_open.
INSERT INTO homing.dead_letters
  (event_id, consumer, generation, queue, job_name, job_id, kind, data, error, fingerprint, attempts_made)
SELECT event_id, consumer, generation, queue, job_name, :job_id, 'torn', (:data)::text::jsonb, (:error)::text::jsonb,
  :fingerprint, :attempts_made
FROM homing.deliveries WHERE event_id = :event_id AND consumer = :consumer AND outcome = 'done'
ON CONFLICT (event_id, consumer) WHERE closed_at IS NULL DO NOTHING
RETURNING id;
