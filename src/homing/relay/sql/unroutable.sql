-- unroutable: events of topics that nobody subscribes to, so that they can be shown; they flow once somebody does.
-- Parameters: most integer (how many rows are counted at the most: a count that reaches it means "or more").
-- Result: topic, events, oldest_seconds; none when everything has a consumer.
-- Guard: none, it only reads. Locks: none. Index: outbox_events_unpublished.
SELECT u.topic, count(*) AS events, extract(epoch FROM clock_timestamp() - min(u.created_at))::float8 AS oldest_seconds
FROM (
  SELECT o.topic, o.created_at FROM homing.outbox_events o
  WHERE o.published_at IS NULL AND o.parked_error IS NULL AND NOT EXISTS (
    SELECT FROM homing.subscriptions s WHERE s.topic = o.topic AND s.retired_at IS NULL)
  LIMIT (:most)::integer) u
GROUP BY u.topic ORDER BY u.topic;
