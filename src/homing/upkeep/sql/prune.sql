-- prune: delete locked events together with their deliveries, unless one is unsettled, too young, or has an open letter in its window.
-- Parameters: ids uuid[] (locked in the same transaction); events_seconds, inbox_seconds, letters_seconds float8 (the windows of
--   deliveries, of those that no relay made, and of open letters).
-- Result: events, deliveries, inbox, lost: how many rows left; inbox are deliveries of jobs that no relay made, lost are open letters past
--   their window, which nobody can redrive any more.
-- Guard: re-read here, in a statement of its own, so that what was opened before the lock is seen; a job of another producer that
--   succeeds late, in this very moment, stays in the inbox. Locks: the rows.
-- Index: deliveries_pkey, dead_letters_history, outbox_events_pkey.
-- Plan: each id is looked up by itself, and ON tells the planner that little is found: also a young database uses the keys.
WITH v AS (
  SELECT e.id AS i FROM unnest((:ids)::uuid[]) k(i)
  JOIN LATERAL (SELECT o.id FROM homing.outbox_events o WHERE o.id = k.i OFFSET 0) e ON e.id = k.i
  WHERE NOT EXISTS (
    SELECT FROM homing.deliveries d WHERE d.event_id = e.id
      AND (d.settled_at IS NULL OR d.settled_at > now() - make_interval(
        secs => CASE d.origin WHEN 'job' THEN (:inbox_seconds)::float8 ELSE (:events_seconds)::float8 END)) OFFSET 0)
  AND NOT EXISTS (
    SELECT FROM homing.dead_letters l WHERE l.event_id = e.id AND l.closed_as IS NULL
      AND l.failed_at > now() - make_interval(secs => (:letters_seconds)::float8) OFFSET 0)),
x AS (
  DELETE FROM homing.deliveries d USING v
  WHERE d.event_id = v.i AND (d.origin = 'outbox' OR d.settled_at < now() - make_interval(secs => (:inbox_seconds)::float8))
  RETURNING d.origin),
y AS (DELETE FROM homing.outbox_events e USING v WHERE e.id = v.i RETURNING e.id),
z AS (DELETE FROM homing.dead_letters l USING v WHERE l.event_id = v.i AND l.closed_as IS NULL RETURNING l.id)
SELECT (SELECT count(*) FROM y) AS events, (SELECT count(*) FROM x WHERE origin = 'outbox') AS deliveries,
  (SELECT count(*) FROM x WHERE origin = 'job') AS inbox, (SELECT count(*) FROM z) AS lost;
