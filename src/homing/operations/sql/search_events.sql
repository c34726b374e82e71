-- search_events: recorded events by what they carry, newest first, out of a walk of bounded length over the primary key.
-- Parameters: topic, aggregate_id, trace_id text (null = any); path text[]; value text (a field of the payload and its value as text,
-- null = any); before uuid (events older than this id); walk integer (events looked at, at most); page integer (events returned, at most).
-- Result: walked and last (how many events the walk looked at, and the id at which it ended) in every row, one row at least; event_id, topic,
-- aggregate_id, created_at, available_at, published_at, parked_error, routable, trace_id (texts cut to 2,000 characters); event_id null = none.
-- Guard: none, it only reads. Locks: none. Index: outbox_events_pkey.
WITH walk AS MATERIALIZED (
  SELECT o.id,
    ((:topic)::text IS NULL OR o.topic = (:topic)::text)
    AND ((:aggregate_id)::text IS NULL OR o.aggregate_id = (:aggregate_id)::text)
    AND ((:trace_id)::text IS NULL OR o.headers->>'traceId' = (:trace_id)::text)
    AND ((:path)::text[] IS NULL OR o.payload #>> (:path)::text[] = (:value)::text) AS fits
  FROM homing.outbox_events o WHERE o.id < (:before)::uuid ORDER BY o.id DESC LIMIT (:walk)::integer)
SELECT (SELECT count(*) FROM walk) AS walked, (SELECT w.id FROM walk w ORDER BY w.id LIMIT 1) AS last,
  e.id AS event_id, e.topic, left(e.aggregate_id, 2000) AS aggregate_id, left(e.parked_error, 2000) AS parked_error,
  left(e.headers->>'traceId', 2000) AS trace_id,
  least(greatest(e.created_at, 'epoch'), '9999-12-31') AS created_at,
  least(greatest(e.available_at, 'epoch'), '9999-12-31') AS available_at,
  nullif(least(greatest(e.published_at, 'epoch'), '9999-12-31'), 'epoch') AS published_at,
  EXISTS (SELECT FROM homing.subscriptions s WHERE s.topic = e.topic AND s.retired_at IS NULL) AS routable
FROM (SELECT) one
LEFT JOIN LATERAL (SELECT w.id FROM walk w WHERE w.fits ORDER BY w.id DESC LIMIT (:page)::integer) f ON true
LEFT JOIN LATERAL (SELECT * FROM homing.outbox_events x WHERE x.id = f.id LIMIT 1) e ON true
ORDER BY e.id DESC;
