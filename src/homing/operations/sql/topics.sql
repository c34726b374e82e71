-- topics: what waits in the outbox, per topic that has anything unpublished.
-- Parameters: most integer (events counted per topic and kind; a count that reaches it means "or more").
-- Result: topic, claimable, oldest_claimable_at, oldest_claimable_seconds (0 without), scheduled, routable (whether somebody subscribes),
-- parked; by topic.
-- Guard: none, it only reads. Locks: none. Index: outbox_events_unpublished and outbox_events_parked, skipping from topic to topic.
WITH RECURSIVE waiting AS (
  (SELECT o.topic FROM homing.outbox_events o WHERE o.published_at IS NULL AND o.parked_error IS NULL ORDER BY o.topic LIMIT 1)
  UNION ALL
  SELECT (
    SELECT o.topic FROM homing.outbox_events o
    WHERE o.published_at IS NULL AND o.parked_error IS NULL AND o.topic > w.topic ORDER BY o.topic LIMIT 1)
  FROM waiting w WHERE w.topic IS NOT NULL),
parked AS (
  SELECT p.topic, count(*) AS events FROM (
    SELECT o.topic FROM homing.outbox_events o WHERE o.parked_error IS NOT NULL AND o.published_at IS NULL
    LIMIT (:most)::integer) p
  GROUP BY p.topic),
found AS (SELECT topic FROM waiting WHERE topic IS NOT NULL UNION SELECT topic FROM parked)
SELECT f.topic, due.events AS claimable, oldest.at AS oldest_claimable_at,
  coalesce(extract(epoch FROM now() - oldest.at), 0)::float8 AS oldest_claimable_seconds,
  later.events AS scheduled, coalesce(parked.events, 0) AS parked,
  EXISTS (SELECT FROM homing.subscriptions s WHERE s.topic = f.topic AND s.retired_at IS NULL) AS routable
FROM found f
LEFT JOIN parked ON parked.topic = f.topic
LEFT JOIN LATERAL (
  SELECT greatest(o.available_at, 'epoch') AS at FROM homing.outbox_events o
  WHERE o.topic = f.topic AND o.published_at IS NULL AND o.parked_error IS NULL AND o.available_at <= now()
  ORDER BY o.available_at LIMIT 1) oldest ON true
CROSS JOIN LATERAL (
  SELECT count(*) AS events FROM (
    SELECT FROM homing.outbox_events o
    WHERE o.topic = f.topic AND o.published_at IS NULL AND o.parked_error IS NULL AND o.available_at <= now()
    LIMIT (:most)::integer) x) due
CROSS JOIN LATERAL (
  SELECT count(*) AS events FROM (
    SELECT FROM homing.outbox_events o
    WHERE o.topic = f.topic AND o.published_at IS NULL AND o.parked_error IS NULL AND o.available_at > now()
    LIMIT (:most)::integer) x) later
ORDER BY f.topic;
