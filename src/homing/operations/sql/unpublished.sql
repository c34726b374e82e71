-- unpublished: a page of all events that are not routed and not parked, in the order of their index: by topic, in each the first due first.
-- Parameters: after uuid (the last id of the page before, or null); page integer.
-- Result: event_id, topic, aggregate_id, created_at, available_at, published_at, parked_error, routable; texts cut to 2,000 characters.
-- Guard: none, it only reads. Locks: none. Index: outbox_events_unpublished and outbox_events_pkey.
WITH last AS (SELECT l.topic, l.available_at, l.id FROM homing.outbox_events l WHERE l.id = (:after)::uuid)
SELECT o.id AS event_id, o.topic, left(o.aggregate_id, 2000) AS aggregate_id, o.parked_error,
  EXISTS (SELECT FROM homing.subscriptions s WHERE s.topic = o.topic AND s.retired_at IS NULL) AS routable,
  least(greatest(o.created_at, 'epoch'), '9999-12-31') AS created_at,
  least(greatest(o.available_at, 'epoch'), '9999-12-31') AS available_at,
  nullif(least(greatest(o.published_at, 'epoch'), '9999-12-31'), 'epoch') AS published_at
FROM homing.outbox_events o
WHERE o.published_at IS NULL AND o.parked_error IS NULL AND (o.topic, o.available_at, o.id) > (
  coalesce((SELECT topic FROM last), ''), coalesce((SELECT available_at FROM last), '-infinity'),
  coalesce((SELECT id FROM last), '00000000-0000-0000-0000-000000000000'))
ORDER BY o.topic, o.available_at, o.id LIMIT (:page)::integer;
