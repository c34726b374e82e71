-- bury_job: a job that no relay made is dead: adopt its data as an event, so that redrive, look and prune treat it like any other.
-- Parameters: event_id uuid (the inbox id); topic, consumer, queue, job_name, job_id, kind, data (JSON), headers (JSON), error (JSON), fingerprint text; attempts_made integer.
-- Result: the letter's id; no row when the delivery is settled or was redriven, and then the gate decides.
-- Guard: primary keys; settled_at and generation 1 where the row exists, as after a retry in place. Locks: the new rows. Index: outbox_events_pkey, deliveries_pkey, dead_letters_open.
WITH e AS (
  INSERT INTO homing.outbox_events (id, topic, payload, headers, published_at)
  VALUES (:event_id, :topic, (:data)::text::jsonb, (:headers)::text::jsonb, clock_timestamp())
  ON CONFLICT (id) DO NOTHING),
d AS (
  INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, origin, outcome, settled_at)
  VALUES (:event_id, :consumer, :queue, :job_name, 'job', 'dead', clock_timestamp())
  ON CONFLICT (event_id, consumer) DO UPDATE SET outcome = 'dead', settled_at = clock_timestamp()
    WHERE deliveries.settled_at IS NULL AND deliveries.generation = 1
  RETURNING event_id, consumer, generation, queue, job_name)
INSERT INTO homing.dead_letters
  (event_id, consumer, generation, queue, job_name, job_id, kind, data, error, fingerprint, attempts_made)
SELECT event_id, consumer, generation, queue, job_name, :job_id, :kind, (:data)::text::jsonb, (:error)::text::jsonb,
  :fingerprint, :attempts_made
FROM d RETURNING id;
