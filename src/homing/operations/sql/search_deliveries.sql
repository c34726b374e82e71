-- search_deliveries: deliveries of one consumer, the newest events first, out of a walk of bounded length over the primary key.
-- Parameters: consumer text; outcome text (done, dead, cancelled; pending = not settled; null = any); before uuid; before_consumer text
-- (the last delivery of the page before); walk integer (deliveries looked at, at most); page integer (deliveries returned, at most).
-- Result: walked, last and last_consumer (how many deliveries the walk looked at, and where it ended) in every row, one row at least; event_id,
-- consumer, queue, job_name, generation, outcome, opened_at, settled_at; event_id null = none.
-- Guard: none, it only reads. Locks: none. Index: deliveries_pkey.
WITH walk AS MATERIALIZED (
  SELECT d.event_id, d.consumer, d.queue, d.job_name, d.generation, d.outcome, d.opened_at, d.settled_at FROM homing.deliveries d
  WHERE (d.event_id, d.consumer) < ((:before)::uuid, (:before_consumer)::text)
  ORDER BY d.event_id DESC, d.consumer DESC LIMIT (:walk)::integer)
SELECT (SELECT count(*) FROM walk) AS walked, z.event_id AS last, z.consumer AS last_consumer,
  e.event_id, e.consumer, e.queue, e.job_name, e.generation, e.outcome,
  least(greatest(e.opened_at, 'epoch'), '9999-12-31') AS opened_at,
  nullif(least(greatest(e.settled_at, 'epoch'), '9999-12-31'), 'epoch') AS settled_at
FROM (SELECT) one
LEFT JOIN LATERAL (SELECT w.event_id, w.consumer FROM walk w ORDER BY w.event_id, w.consumer LIMIT 1) z ON true
LEFT JOIN LATERAL (
  SELECT * FROM walk w
  WHERE w.consumer = (:consumer)::text
    AND ((:outcome)::text IS NULL OR coalesce(w.outcome, 'pending') = (:outcome)::text)
  ORDER BY w.event_id DESC LIMIT (:page)::integer) e ON true
ORDER BY e.event_id DESC;
