-- events: a page of recorded events, newest first, out of a walk of bounded length over the primary key.
-- Parameters: topic text; published boolean (null = whatever); since uuid (the first id that counts); before uuid (the last id of the page
-- before); walk integer (events looked at, at most); page integer (events returned, at most).
-- Result: walked and last (how many events the walk looked at, and the id at which it ended) in every row, one row at least; event_id, topic,
-- aggregate_id, created_at, available_at, published_at, parked_error, routable (texts cut to 2,000 characters); event_id null = the walk found none.
-- Guard: none, it only reads. Locks: none. Index: outbox_events_pkey.
WITH walk AS MATERIALIZED (
  SELECT o.id, o.topic, o.aggregate_id, o.created_at, o.available_at, o.published_at, o.parked_error FROM homing.outbox_events o
  WHERE o.id < (:before)::uuid AND o.id >= (:since)::uuid ORDER BY o.id DESC LIMIT (:walk)::integer)
SELECT (SELECT count(*) FROM walk) AS walked, (SELECT w.id FROM walk w ORDER BY w.id LIMIT 1) AS last,
  e.id AS event_id, e.topic, left(e.aggregate_id, 2000) AS aggregate_id, left(e.parked_error, 2000) AS parked_error,
  least(greatest(e.created_at, 'epoch'), '9999-12-31') AS created_at,
  least(greatest(e.available_at, 'epoch'), '9999-12-31') AS available_at,
  nullif(least(greatest(e.published_at, 'epoch'), '9999-12-31'), 'epoch') AS published_at,
  EXISTS (SELECT FROM homing.subscriptions s WHERE s.topic = e.topic AND s.retired_at IS NULL) AS routable
FROM (SELECT) one
LEFT JOIN LATERAL (
  SELECT * FROM walk w
  WHERE ((:topic)::text IS NULL OR w.topic = (:topic)::text)
    AND ((:published)::boolean IS NULL OR (w.published_at IS NOT NULL) = (:published)::boolean)
  ORDER BY w.id DESC LIMIT (:page)::integer) e ON true
ORDER BY e.id DESC;
