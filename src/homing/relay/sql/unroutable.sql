-- unroutable: events of topics that nobody subscribes to, so that they can be shown; they flow once somebody does.
-- Parameters: most integer (how many rows of a topic are counted at the most: a count that reaches it means "or more").
-- Result: topic, events, oldest_seconds; none when everything has a consumer.
-- Guard: none, it only reads. Locks: none. Index: outbox_events_unpublished, skipping from topic to topic: what has a consumer is not read.
WITH RECURSIVE waiting AS (
  (SELECT o.topic FROM homing.outbox_events o WHERE o.published_at IS NULL AND o.parked_error IS NULL ORDER BY o.topic LIMIT 1)
  UNION ALL
  SELECT (
    SELECT o.topic FROM homing.outbox_events o
    WHERE o.published_at IS NULL AND o.parked_error IS NULL AND o.topic > w.topic ORDER BY o.topic LIMIT 1)
  FROM waiting w WHERE w.topic IS NOT NULL)
SELECT w.topic, u.events, extract(epoch FROM clock_timestamp() - u.oldest)::float8 AS oldest_seconds
FROM waiting w CROSS JOIN LATERAL (
  SELECT count(*) AS events, min(x.created_at) AS oldest FROM (
    SELECT o.created_at FROM homing.outbox_events o
    WHERE o.topic = w.topic AND o.published_at IS NULL AND o.parked_error IS NULL
    ORDER BY o.available_at, o.id LIMIT (:most)::integer) x) u
WHERE w.topic IS NOT NULL AND u.events > 0 AND NOT EXISTS (
  SELECT FROM homing.subscriptions s WHERE s.topic = w.topic AND s.retired_at IS NULL)
ORDER BY w.topic;
