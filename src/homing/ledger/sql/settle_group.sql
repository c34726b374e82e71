-- settle_group: mark deliveries done whose handlers ran without a transaction: the effect happened, so dead becomes done too.
-- Parameters: rows jsonb (an array of event_id, consumer, and result: JSON text or null).
-- Result: how many changed; the others were done or cancelled meanwhile and are finished all the same.
-- Guard: outcome. Locks: the rows, in key order, for this statement only. Index: deliveries_pkey, dead_letters_history.
-- Plan: each key is looked up by itself, and USING tells the planner that little is found: also a young database uses the keys.
WITH k AS (
  SELECT d.event_id, d.consumer, k.result
  FROM (SELECT * FROM jsonb_to_recordset((:rows)::jsonb) AS j(event_id uuid, consumer text, result text) ORDER BY 1, 2) k
  JOIN LATERAL (
    SELECT o.event_id, o.consumer FROM homing.deliveries o
    WHERE (o.event_id, o.consumer) = (k.event_id, k.consumer) AND (o.outcome IS NULL OR o.outcome = 'dead')
    FOR UPDATE) d USING (event_id, consumer)),
s AS (
  UPDATE homing.deliveries d SET outcome = 'done', settled_at = clock_timestamp(), result = k.result::jsonb
  FROM k WHERE (d.event_id, d.consumer) = (k.event_id, k.consumer)
  RETURNING d.event_id, d.consumer),
o AS (
  SELECT l.id
  FROM s JOIN LATERAL (
    SELECT l.id, l.event_id, l.consumer FROM homing.dead_letters l
    WHERE (l.event_id, l.consumer) = (s.event_id, s.consumer) AND l.closed_as IS NULL
    FOR UPDATE) l USING (event_id, consumer)),
l AS (
  UPDATE homing.dead_letters l SET closed_at = clock_timestamp(), closed_as = 'late success'
  FROM o WHERE l.id = o.id)
SELECT count(*) AS settled FROM s;
