-- explained_deliveries: the deliveries of one event, or one of them, with all that says why they are not done.
-- Parameters: event_id uuid; consumer text (null = all).
-- Result: by consumer, a row for each: consumer, queue, job_name, generation, opened_at, check_at, vanished, outcome, settled_at; is_older:
-- whether the engine's data is newer than what its job was last seen in; names: its own and those of handlers that say it is an alias of
-- theirs; retired_at; is_foreign: whether another system runs its jobs; deadline_at, null without a subscription; letter, kind, failed_at,
-- error_class, error_text, closed_as of its last dead letter; now.
-- Guard: none, it only reads. Locks: none. Index: deliveries_pkey, queues_pkey, outbox_events_pkey, dead_letters_history, subscriptions_pkey.
SELECT d.consumer, d.queue, d.job_name, d.generation, d.outcome, d.vanished,
  least(greatest(d.opened_at, 'epoch'), '9999-12-31') AS opened_at,
  least(greatest(d.check_at, 'epoch'), '9999-12-31') AS check_at,
  nullif(least(greatest(d.settled_at, 'epoch'), '9999-12-31'), 'epoch') AS settled_at,
  coalesce(d.epoch < q.epoch, false) AS is_older, s.retired_at,
  coalesce(s.mode IN ('foreign', 'elsewhere'), false) AS is_foreign,
  CASE WHEN jsonb_typeof(s.options->'deadlineSeconds') = 'number'
    THEN d.opened_at + make_interval(secs => least((s.options->>'deadlineSeconds')::float8, 1e10)) END AS deadline_at,
  ARRAY(
    SELECT a.consumer FROM homing.subscriptions a WHERE a.topic = o.topic AND d.consumer = ANY (a.aliases)
    UNION SELECT d.consumer) AS names,
  l.id AS letter, l.kind, nullif(least(greatest(l.failed_at, 'epoch'), '9999-12-31'), 'epoch') AS failed_at,
  l.error->>'class' AS error_class, l.error->>'text' AS error_text, l.closed_as, clock_timestamp() AS now
FROM homing.deliveries d
LEFT JOIN homing.queues q ON q.queue = d.queue
LEFT JOIN homing.outbox_events o ON o.id = d.event_id
LEFT JOIN homing.subscriptions s ON s.topic = o.topic AND s.consumer = d.consumer
LEFT JOIN LATERAL (
  SELECT * FROM homing.dead_letters x
  WHERE x.event_id = d.event_id AND x.consumer = d.consumer ORDER BY x.id DESC LIMIT 1) l ON true
WHERE d.event_id = :event_id AND ((:consumer)::text IS NULL OR d.consumer = (:consumer)::text)
ORDER BY d.consumer;
