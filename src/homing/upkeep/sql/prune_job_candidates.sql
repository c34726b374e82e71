-- prune_job_candidates: lock a batch of old settled deliveries that no relay made, in the order of their settling: their ids hold no time.
-- Parameters: settled_at timestamptz, event_id uuid, consumer text (the last row of the batch before); inbox_seconds float8; page integer.
-- Result: settled_at, event_id, consumer.
-- Guard: origin and age. Locks: the rows FOR UPDATE, skipping those held, until the transaction ends. Index: deliveries_inbox.
SELECT settled_at, event_id, consumer FROM homing.deliveries
WHERE origin = 'job' AND settled_at < now() - make_interval(secs => (:inbox_seconds)::float8)
  AND (settled_at, event_id, consumer) > (:settled_at, :event_id, :consumer)
ORDER BY settled_at, event_id, consumer LIMIT (:page)::integer FOR UPDATE SKIP LOCKED;
