-- lineage: what became of one event: its deliveries as they are now.
-- Parameters: event_id uuid.
-- Result: by consumer: consumer, queue, job_name, origin, generation, outcome, opened_at, settled_at, check_at, vanished, edited (boolean).
-- Guard: none, it only reads. Locks: none. Index: deliveries_pkey.
SELECT d.consumer, d.queue, d.job_name, d.origin, d.generation, d.outcome, d.vanished, d.edited IS NOT NULL AS edited,
  least(greatest(d.opened_at, 'epoch'), '9999-12-31') AS opened_at,
  nullif(least(greatest(d.settled_at, 'epoch'), '9999-12-31'), 'epoch') AS settled_at,
  least(greatest(d.check_at, 'epoch'), '9999-12-31') AS check_at
FROM homing.deliveries d WHERE d.event_id = (:event_id)::uuid ORDER BY d.consumer;
