-- unrouted: a page of events that are not routed and not parked: by topic, in each the first due first.
-- Parameters: topic text (null = any); state text (unpublished = all of them, scheduled = not due yet, unroutable = due, and nobody
-- subscribes); since timestamptz (due then or later; null = whenever); after uuid (the last id of the page before, or null); page integer.
-- Result: event_id, topic, aggregate_id, created_at, available_at, published_at, parked_error, routable; texts cut to 2,000 characters.
-- Guard: none, it only reads. Locks: none. Index: outbox_events_unpublished, skipping from topic to topic, and outbox_events_pkey.
WITH RECURSIVE last AS (SELECT l.topic, l.available_at, l.id FROM homing.outbox_events l WHERE l.id = (:after)::uuid),
waiting AS (
  (SELECT o.topic FROM homing.outbox_events o
    WHERE o.published_at IS NULL AND o.parked_error IS NULL AND o.topic >= coalesce((:topic)::text, (SELECT topic FROM last), '')
    ORDER BY o.topic LIMIT 1)
  UNION ALL
  SELECT (
    SELECT o.topic FROM homing.outbox_events o
    WHERE o.published_at IS NULL AND o.parked_error IS NULL AND o.topic > w.topic ORDER BY o.topic LIMIT 1)
  FROM waiting w WHERE w.topic IS NOT NULL AND (:topic)::text IS NULL),
chosen AS (
  SELECT w.topic, EXISTS (SELECT FROM homing.subscriptions s WHERE s.topic = w.topic AND s.retired_at IS NULL) AS routable,
    greatest(l.available_at, b.at) AS from_at,
    CASE WHEN l.available_at >= b.at THEN l.id ELSE '00000000-0000-0000-0000-000000000000' END AS from_id
  FROM waiting w
  CROSS JOIN (SELECT greatest(CASE WHEN (:state)::text = 'scheduled' THEN now() ELSE '-infinity' END, (:since)::timestamptz) AS at) b
  LEFT JOIN last l ON l.topic = w.topic
  WHERE w.topic IS NOT NULL AND ((:topic)::text IS NULL OR w.topic = (:topic)::text))
SELECT e.id AS event_id, e.topic, left(e.aggregate_id, 2000) AS aggregate_id, e.parked_error, c.routable,
  least(greatest(e.created_at, 'epoch'), '9999-12-31') AS created_at,
  least(greatest(e.available_at, 'epoch'), '9999-12-31') AS available_at,
  nullif(least(greatest(e.published_at, 'epoch'), '9999-12-31'), 'epoch') AS published_at
FROM chosen c
CROSS JOIN LATERAL (
  -- One bound alone, so that nobody believes that sorting the few rows left is cheaper than reading a page in the index's order.
  SELECT * FROM homing.outbox_events o
  WHERE o.topic = c.topic AND o.published_at IS NULL AND o.parked_error IS NULL AND (o.available_at, o.id) > (c.from_at, c.from_id)
  ORDER BY o.available_at, o.id LIMIT (:page)::integer) e
WHERE (:state)::text <> 'unroutable' OR (NOT c.routable AND e.available_at <= now())
ORDER BY e.topic, e.available_at, e.id LIMIT (:page)::integer;
