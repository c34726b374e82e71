-- prune: delete locked events together with their deliveries, unless one is unsettled, too young, or has an open letter in its window.
-- Parameters: ids uuid[] (locked by prune_candidates in the same transaction); retention_seconds, letters_seconds float8.
-- Result: events, deliveries: how many rows left.
-- Guard: re-read here, in a statement of its own, so that what was opened before the lock is seen. Locks: the rows.
-- Index: deliveries_pkey, dead_letters_open, outbox_events_pkey.
WITH v AS (
  SELECT i FROM unnest((:ids)::uuid[]) i
  WHERE NOT EXISTS (
    SELECT FROM homing.deliveries d WHERE d.event_id = i
      AND (d.settled_at IS NULL OR d.settled_at > now() - make_interval(secs => (:retention_seconds)::float8)))
  AND NOT EXISTS (
    SELECT FROM homing.dead_letters l WHERE l.event_id = i AND l.closed_at IS NULL
      AND l.failed_at > now() - make_interval(secs => (:letters_seconds)::float8))),
x AS (DELETE FROM homing.deliveries d USING v WHERE d.event_id = v.i RETURNING d.event_id),
y AS (DELETE FROM homing.outbox_events e USING v WHERE e.id = v.i RETURNING e.id)
SELECT (SELECT count(*) FROM y) AS events, (SELECT count(*) FROM x) AS deliveries;
