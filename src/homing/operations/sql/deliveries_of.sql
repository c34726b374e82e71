-- deliveries_of: the deliveries of some events, as they are now.
-- Parameters: event_ids uuid[]; most integer (rows).
-- Result: by event and consumer: event_id, consumer, queue, job_name, generation, outcome, opened_at, settled_at.
-- Guard: none, it only reads. Locks: none. Index: deliveries_pkey.
SELECT d.event_id, d.consumer, d.queue, d.job_name, d.generation, d.outcome,
  least(greatest(d.opened_at, 'epoch'), '9999-12-31') AS opened_at,
  nullif(least(greatest(d.settled_at, 'epoch'), '9999-12-31'), 'epoch') AS settled_at
FROM homing.deliveries d WHERE d.event_id = ANY ((:event_ids)::uuid[])
ORDER BY d.event_id, d.consumer LIMIT (:most)::integer;
