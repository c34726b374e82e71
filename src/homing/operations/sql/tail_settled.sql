-- tail_settled: deliveries of events recorded lately that were settled since, the oldest first.
-- Parameters: first uuid (the first event id that counts); since timestamptz; consumer, queue text (null = any); walk integer (deliveries
-- looked at, at most); page integer (the newest so many).
-- Result: event_id, consumer, queue, generation, outcome, settled_at, took_seconds (from opened to settled).
-- Guard: none, it only reads. Locks: none. Index: deliveries_pkey.
SELECT f.event_id, f.consumer, f.queue, f.generation, f.outcome, least(f.settled_at, '9999-12-31') AS settled_at,
  greatest(extract(epoch FROM f.settled_at - f.opened_at), 0)::float8 AS took_seconds
FROM (
  SELECT * FROM (
    SELECT * FROM homing.deliveries x WHERE x.event_id >= (:first)::uuid ORDER BY x.event_id DESC LIMIT (:walk)::integer) d
  WHERE d.settled_at > (:since)::timestamptz
    AND ((:consumer)::text IS NULL OR d.consumer = (:consumer)::text) AND ((:queue)::text IS NULL OR d.queue = (:queue)::text)
  ORDER BY d.settled_at DESC LIMIT (:page)::integer) f
ORDER BY f.settled_at;
