-- audit_topics: what is not routed, by topic, beside how many events a window has.
-- Parameters: first_id uuid (the id that the window's first event would have); overdue_seconds float8 (how late a routing may be).
-- Result: topic, events (of the window, routed or not), claimable, overdue (claimable for longer), scheduled, parked (of all times),
--   oldest_seconds (of what is claimable; 0 without), routable (whether somebody subscribes); by topic.
-- Guard: none, it only reads. Locks: none. Index: outbox_events_pkey (a window is a range of version 7 ids), outbox_events_unpublished,
--   outbox_events_parked.
WITH recent AS (SELECT o.topic, count(*) AS events FROM homing.outbox_events o WHERE o.id >= :first_id GROUP BY o.topic),
waiting AS (
  SELECT o.topic, count(*) FILTER (WHERE o.available_at <= now()) AS claimable,
    count(*) FILTER (WHERE o.available_at < now() - make_interval(secs => (:overdue_seconds)::float8)) AS overdue,
    count(*) FILTER (WHERE o.available_at > now()) AS scheduled, extract(epoch FROM now() - min(o.available_at))::float8 AS oldest_seconds
  FROM homing.outbox_events o WHERE o.published_at IS NULL AND o.parked_error IS NULL GROUP BY o.topic),
parked AS (
  SELECT o.topic, count(*) AS parked FROM homing.outbox_events o
  WHERE o.parked_error IS NOT NULL AND o.published_at IS NULL GROUP BY o.topic)
SELECT f.topic, coalesce(r.events, 0) AS events, coalesce(w.claimable, 0) AS claimable, coalesce(w.overdue, 0) AS overdue,
  coalesce(w.scheduled, 0) AS scheduled, coalesce(p.parked, 0) AS parked, greatest(coalesce(w.oldest_seconds, 0), 0) AS oldest_seconds,
  EXISTS (SELECT FROM homing.subscriptions s WHERE s.topic = f.topic AND s.retired_at IS NULL) AS routable
FROM (SELECT topic FROM recent UNION SELECT topic FROM waiting UNION SELECT topic FROM parked) f
LEFT JOIN recent r USING (topic) LEFT JOIN waiting w USING (topic) LEFT JOIN parked p USING (topic)
ORDER BY f.topic;
