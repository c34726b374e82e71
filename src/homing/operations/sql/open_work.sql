-- open_work: what is unsettled, per consumer, as the first of two looks from which the pace is reckoned.
-- Parameters: most integer (rows counted per consumer; a count that reaches it means "or more").
-- Result: consumer, unsettled, horizon (when the last one counted was opened), at (the moment of the look); last_letter (the newest dead
-- letter). One row at least; consumer null = nothing is unsettled.
-- Guard: none, it only reads. Locks: none. Index: deliveries_by_consumer, skipping from one consumer to the next; dead_letters_pkey.
WITH RECURSIVE busy AS (
  (SELECT d.consumer FROM homing.deliveries d WHERE d.settled_at IS NULL ORDER BY d.consumer LIMIT 1)
  UNION ALL
  SELECT (SELECT d.consumer FROM homing.deliveries d WHERE d.settled_at IS NULL AND d.consumer > b.consumer ORDER BY d.consumer LIMIT 1)
  FROM busy b WHERE b.consumer IS NOT NULL)
SELECT b.consumer, work.unsettled, least(greatest(work.horizon, 'epoch'), '9999-12-31') AS horizon, now() AS at,
  coalesce((SELECT max(l.id) FROM homing.dead_letters l), 0) AS last_letter
FROM (SELECT) one
LEFT JOIN busy b ON b.consumer IS NOT NULL
LEFT JOIN LATERAL (
  SELECT count(*) AS unsettled, max(x.opened_at) AS horizon FROM (
    SELECT d.opened_at FROM homing.deliveries d WHERE d.consumer = b.consumer AND d.settled_at IS NULL
    ORDER BY d.opened_at LIMIT (:most)::integer) x) work ON true
ORDER BY b.consumer;
