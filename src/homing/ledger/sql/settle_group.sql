-- settle_group: mark deliveries done whose handlers ran without a transaction: the effect happened, so dead becomes done too.
-- Parameters: rows jsonb (an array of event_id, consumer, and result: JSON text or null).
-- Result: how many changed; the others were done or cancelled meanwhile and are finished all the same.
-- Guard: outcome. Locks: the rows, in key order, for this statement only. Index: deliveries_pkey, dead_letters_open.
WITH k AS (
  SELECT d.event_id, d.consumer, k.result
  FROM jsonb_to_recordset((:rows)::jsonb) AS k(event_id uuid, consumer text, result text)
  JOIN homing.deliveries d USING (event_id, consumer)
  WHERE d.outcome IS NULL OR d.outcome = 'dead'
  ORDER BY 1, 2 FOR UPDATE OF d),
s AS (
  UPDATE homing.deliveries d SET outcome = 'done', settled_at = clock_timestamp(), result = k.result::jsonb
  FROM k WHERE (d.event_id, d.consumer) = (k.event_id, k.consumer)
  RETURNING d.event_id, d.consumer),
l AS (
  UPDATE homing.dead_letters l SET closed_at = clock_timestamp(), closed_as = 'late success'
  FROM s WHERE (l.event_id, l.consumer) = (s.event_id, s.consumer) AND l.closed_at IS NULL)
SELECT count(*) AS settled FROM s;
