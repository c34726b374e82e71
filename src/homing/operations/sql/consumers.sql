-- consumers: what every consumer has to do: those with a subscription, and those that only have unsettled deliveries left.
-- Parameters: most integer (rows counted per consumer; a count that reaches it means "or more"); late_seconds float8 (how long after
-- its time a look is late).
-- Result: consumer, unsettled, overdue, oldest_unsettled_seconds (0 without), open_letters, subscribed; by consumer.
-- Guard: none, it only reads. Locks: none. Index: deliveries_by_consumer and dead_letters_by_consumer, skipping from one to the next.
WITH RECURSIVE busy AS (
  (SELECT d.consumer FROM homing.deliveries d WHERE d.settled_at IS NULL ORDER BY d.consumer LIMIT 1)
  UNION ALL
  SELECT (SELECT d.consumer FROM homing.deliveries d WHERE d.settled_at IS NULL AND d.consumer > b.consumer ORDER BY d.consumer LIMIT 1)
  FROM busy b WHERE b.consumer IS NOT NULL),
dead AS (
  (SELECT l.consumer FROM homing.dead_letters l WHERE l.closed_at IS NULL ORDER BY l.consumer LIMIT 1)
  UNION ALL
  SELECT (SELECT l.consumer FROM homing.dead_letters l WHERE l.closed_at IS NULL AND l.consumer > b.consumer ORDER BY l.consumer LIMIT 1)
  FROM dead b WHERE b.consumer IS NOT NULL),
subscribed AS (SELECT DISTINCT consumer FROM homing.subscriptions WHERE retired_at IS NULL),
found AS (
  SELECT consumer FROM busy WHERE consumer IS NOT NULL UNION SELECT consumer FROM dead WHERE consumer IS NOT NULL
  UNION SELECT consumer FROM subscribed)
SELECT f.consumer, work.unsettled, work.overdue, coalesce(extract(epoch FROM now() - oldest.at), 0)::float8 AS oldest_unsettled_seconds,
  letters.open AS open_letters, EXISTS (SELECT FROM subscribed s WHERE s.consumer = f.consumer) AS subscribed
FROM found f
LEFT JOIN LATERAL (
  SELECT d.opened_at AS at FROM homing.deliveries d WHERE d.consumer = f.consumer AND d.settled_at IS NULL
  ORDER BY d.opened_at LIMIT 1) oldest ON true
CROSS JOIN LATERAL (
  SELECT count(*) AS unsettled, count(*) FILTER (WHERE x.check_at < now() - make_interval(secs => (:late_seconds)::float8)) AS overdue
  FROM (
    SELECT d.check_at FROM homing.deliveries d WHERE d.consumer = f.consumer AND d.settled_at IS NULL
    ORDER BY d.opened_at LIMIT (:most)::integer) x) work
CROSS JOIN LATERAL (
  SELECT count(*) AS open FROM (
    SELECT FROM homing.dead_letters l WHERE l.consumer = f.consumer AND l.closed_at IS NULL LIMIT (:most)::integer) x) letters
ORDER BY f.consumer;
