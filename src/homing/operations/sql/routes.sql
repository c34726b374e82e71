-- routes: which consumers get which topics, retired ones too.
-- Parameters: none.
-- Result: topic, consumer, queue, job_name, mode, aliases, registered_at, retired_at; by consumer and topic.
-- Guard: none, it only reads. Locks: none. Index: none, the table has a row per route.
SELECT s.topic, s.consumer, s.queue, s.job_name, s.mode, s.aliases,
  least(greatest(s.registered_at, 'epoch'), '9999-12-31') AS registered_at,
  nullif(least(greatest(s.retired_at, 'epoch'), '9999-12-31'), 'epoch') AS retired_at
FROM homing.subscriptions s ORDER BY s.consumer, s.topic;
