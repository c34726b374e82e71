-- prune_inbox: forget settled jobs of other producers once no source can hand them over again.
-- Parameters: inbox_seconds float8; page integer.
-- Result: deliveries: how many rows left.
-- Guard: origin, outcome and age. Locks: the rows, skipping those held. Index: deliveries_inbox, deliveries_pkey.
WITH old AS (
  SELECT event_id, consumer FROM homing.deliveries
  WHERE origin = 'job' AND outcome = 'done' AND settled_at < now() - make_interval(secs => (:inbox_seconds)::float8)
  ORDER BY settled_at LIMIT (:page)::integer FOR UPDATE SKIP LOCKED),
x AS (
  DELETE FROM homing.deliveries d USING old WHERE (d.event_id, d.consumer) = (old.event_id, old.consumer)
  RETURNING d.event_id)
SELECT count(*) AS deliveries FROM x;
