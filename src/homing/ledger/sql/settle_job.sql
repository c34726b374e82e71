-- settle_job: the inbox of jobs that no relay made: the only upsert, in the handler's transaction.
-- Parameters: event_id uuid (the inbox id); consumer, queue, job_name text.
-- Result: the transaction's id the first time; no row when an earlier run settled it.
-- Guard: settled_at. Locks: this one row until the handler's transaction ends. Index: deliveries_pkey.
INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, origin, outcome, settled_at)
VALUES (:event_id, :consumer, :queue, :job_name, 'job', 'done', clock_timestamp())
ON CONFLICT (event_id, consumer) DO UPDATE SET outcome = 'done', settled_at = clock_timestamp()
  WHERE deliveries.settled_at IS NULL
RETURNING pg_current_xact_id()::text AS transaction_id;
