-- explained_event: one recorded event, as far as it says why its deliveries are not there yet.
-- Parameters: event_id uuid.
-- Result: topic, created_at, available_at, published_at, parked_error, is_due, subscribers (active consumers of its topic), now; none without.
-- Guard: none, it only reads. Locks: none. Index: outbox_events_pkey, subscriptions_pkey.
SELECT o.topic, least(greatest(o.created_at, 'epoch'), '9999-12-31') AS created_at,
  least(greatest(o.available_at, 'epoch'), '9999-12-31') AS available_at,
  nullif(least(greatest(o.published_at, 'epoch'), '9999-12-31'), 'epoch') AS published_at,
  o.parked_error, o.available_at <= now() AS is_due,
  ARRAY(SELECT s.consumer FROM homing.subscriptions s WHERE s.topic = o.topic AND s.retired_at IS NULL ORDER BY 1) AS subscribers,
  clock_timestamp() AS now
FROM homing.outbox_events o WHERE o.id = :event_id;
