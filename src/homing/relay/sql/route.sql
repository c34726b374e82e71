-- route: open the deliveries of a bounded number of unpublished events per subscribed topic, and mark the events routed. An event of
--   which no job can be made (anybody may have written the row) is parked with its error instead, and holds up no other.
--   A route whose consumer is a former name of another active one of the topic gets nothing new: a renamed consumer is one consumer.
-- Parameters: page integer (events per topic); queues text[], epochs integer[] (verified on this relay's connection; unknown = 0 = due).
-- Result: one row per delivery opened, with what its job needs, and due_seconds (Unix time from which it could be routed); for a parked event one row with event_id, topic and parked_error, the rest
-- null. Nothing is written after a successful dispatch.
-- Guard: published_at, the deliveries' primary key. Locks: the events, skipping those another relay holds, until commit.
-- Index: outbox_events_unpublished, subscriptions_pkey. Topics without a subscription are never read.
WITH topics AS (SELECT DISTINCT topic FROM homing.subscriptions WHERE retired_at IS NULL),
batch AS MATERIALIZED (
  SELECT e.* FROM topics t CROSS JOIN LATERAL (
    SELECT id, topic, payload, headers, created_at, available_at,
      CASE WHEN jsonb_typeof(payload) <> 'object' THEN 'its payload is no JSON object: ' || jsonb_typeof(payload)
        WHEN jsonb_typeof(headers) <> 'object' THEN 'its headers are no JSON object: ' || jsonb_typeof(headers)
      END AS trouble
    FROM homing.outbox_events o
    WHERE o.topic = t.topic AND o.published_at IS NULL AND o.parked_error IS NULL AND o.available_at <= now()
    ORDER BY o.available_at, o.id LIMIT (:page)::integer FOR UPDATE SKIP LOCKED) e),
opened AS (
  INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, epoch, check_at)
  SELECT b.id, s.consumer, s.queue, s.job_name, coalesce(k.epoch, 0), now() + interval '30 s'
  FROM batch b JOIN homing.subscriptions s ON s.topic = b.topic AND s.retired_at IS NULL
  LEFT JOIN unnest((:queues)::text[], (:epochs)::integer[]) AS k(queue, epoch) ON k.queue = s.queue
  WHERE b.trouble IS NULL AND NOT EXISTS (
    SELECT FROM homing.subscriptions n WHERE n.topic = s.topic AND n.retired_at IS NULL AND n.consumer <> s.consumer
      AND s.consumer = ANY (n.aliases))
  ON CONFLICT (event_id, consumer) DO NOTHING
  RETURNING event_id, consumer, queue, job_name, generation, opened_at),
marked AS (
  UPDATE homing.outbox_events o
  SET published_at = CASE WHEN b.trouble IS NULL THEN clock_timestamp() END, parked_error = b.trouble
  FROM batch b WHERE o.id = b.id RETURNING o.id)
SELECT d.event_id, d.consumer, d.queue, d.job_name, d.generation, d.opened_at, b.payload::text AS payload,
  b.headers::text AS headers, least(greatest(b.created_at, 'epoch'), '9999-12-31') AS created_at, s.options::text AS options, s.mode,
  b.topic, NULL AS parked_error, extract(epoch FROM greatest(b.created_at, b.available_at, 'epoch'))::float8 AS due_seconds
FROM opened d JOIN batch b ON b.id = d.event_id JOIN homing.subscriptions s ON s.topic = b.topic AND s.consumer = d.consumer
UNION ALL
SELECT b.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, b.topic, b.trouble, NULL FROM batch b WHERE b.trouble IS NOT NULL;
