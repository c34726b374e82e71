-- audit_consumers: what became of the deliveries of a window's events, by consumer, beside everything that is unsettled or open now.
-- Parameters: first_id uuid (the id that the window's first event would have); overdue_seconds float8 (how late a look may be).
-- Result: consumer, done, dead, cancelled (of events in the window), in_flight, overdue (of all times; what is overdue is not in flight),
--   open_letters, subscribed; by consumer.
-- Guard: none, it only reads. Locks: none. Index: deliveries_pkey (a window is a range of version 7 ids), deliveries_by_consumer,
--   dead_letters_by_consumer.
WITH settled AS (
  SELECT d.consumer, count(*) FILTER (WHERE d.outcome = 'done') AS done, count(*) FILTER (WHERE d.outcome = 'dead') AS dead,
    count(*) FILTER (WHERE d.outcome = 'cancelled') AS cancelled
  FROM homing.deliveries d WHERE d.origin = 'outbox' AND d.event_id >= :first_id AND d.settled_at IS NOT NULL GROUP BY d.consumer),
unsettled AS (
  SELECT d.consumer, count(*) AS all_of_them,
    count(*) FILTER (WHERE d.check_at < now() - make_interval(secs => (:overdue_seconds)::float8)) AS overdue
  FROM homing.deliveries d WHERE d.settled_at IS NULL GROUP BY d.consumer),
letters AS (SELECT l.consumer, count(*) AS open FROM homing.dead_letters l WHERE l.closed_at IS NULL GROUP BY l.consumer),
subscribed AS (SELECT DISTINCT consumer FROM homing.subscriptions WHERE retired_at IS NULL)
SELECT f.consumer, coalesce(s.done, 0) AS done, coalesce(s.dead, 0) AS dead, coalesce(s.cancelled, 0) AS cancelled,
  coalesce(u.all_of_them - u.overdue, 0) AS in_flight, coalesce(u.overdue, 0) AS overdue, coalesce(l.open, 0) AS open_letters,
  EXISTS (SELECT FROM subscribed b WHERE b.consumer = f.consumer) AS subscribed
FROM (SELECT consumer FROM settled UNION SELECT consumer FROM unsettled UNION SELECT consumer FROM letters
  UNION SELECT consumer FROM subscribed) f
LEFT JOIN settled s USING (consumer) LEFT JOIN unsettled u USING (consumer) LEFT JOIN letters l USING (consumer)
ORDER BY f.consumer;
