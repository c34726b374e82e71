-- backfill: open the deliveries of one consumer for events that were routed before it was known; the sweep hands their jobs over.
-- Parameters: topic, consumer text; since, until timestamptz (recorded from, and before); after uuid (the last event of the batch before);
--   page integer (events that are looked at), most integer (deliveries that are opened).
-- Result: one row: seen, how many events the batch has; last, the id to go on from, or null; opened, how many deliveries were opened.
-- Guard: the route is not retired; published_at; no buried job of another producer (raw: it was for one consumer alone); no delivery under
--   the consumer's name or a former one: run twice is once.
-- Locks: FOR KEY SHARE on the events that are chosen, so that prune takes none of them meanwhile.
-- Index: outbox_events_pkey, deliveries_pkey.
WITH route AS MATERIALIZED (
  SELECT queue, job_name, aliases || consumer AS names FROM homing.subscriptions
  WHERE topic = :topic AND consumer = :consumer AND retired_at IS NULL),
page AS MATERIALIZED (
  SELECT id, topic, published_at, created_at, headers ? 'raw' AS raw FROM homing.outbox_events
  WHERE id > :after ORDER BY id LIMIT (:page)::integer),
wanted AS MATERIALIZED (
  SELECT p.id FROM page p CROSS JOIN route r
  WHERE p.topic = :topic AND NOT p.raw AND p.published_at IS NOT NULL AND p.created_at >= :since AND p.created_at < :until
    AND NOT EXISTS (SELECT FROM homing.deliveries d WHERE d.event_id = p.id AND d.consumer = ANY(r.names))
  ORDER BY p.id LIMIT (:most)::integer),
chosen AS MATERIALIZED (
  SELECT e.id FROM homing.outbox_events e WHERE e.id IN (SELECT id FROM wanted) ORDER BY e.id FOR KEY SHARE),
opened AS (
  INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, epoch, check_at)
  SELECT c.id, :consumer, r.queue, r.job_name, 0, now() FROM chosen c CROSS JOIN route r
  ON CONFLICT (event_id, consumer) DO NOTHING RETURNING event_id)
SELECT (SELECT count(*) FROM page) AS seen, (SELECT count(*) FROM opened) AS opened,
  CASE WHEN (SELECT count(*) FROM wanted) = (:most)::integer
    THEN (SELECT id FROM wanted ORDER BY id DESC LIMIT 1) ELSE (SELECT id FROM page ORDER BY id DESC LIMIT 1) END AS last;
