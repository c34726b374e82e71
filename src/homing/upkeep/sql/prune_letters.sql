-- prune_letters: closed letters leave when they have been closed for the window of dead letters; so do open ones whose event is gone.
-- Parameters: after bigint (the last id of the batch before); letters_seconds float8; page integer.
-- Result: one row: seen, how many letters the batch has; last, its last id, or null; young, whether the batch has reached the window;
--   letters, lost: how many closed and open ones left.
-- Guard: age; for open letters, no event. Locks: the letters, skipping those held. Index: dead_letters_pkey, outbox_events_pkey.
-- Plan: each event is looked up by itself (OFFSET 0), also where a young database would rather read the whole table.
WITH cut AS (SELECT now() - make_interval(secs => (:letters_seconds)::float8) AS at),
batch AS MATERIALIZED (
  SELECT id, event_id, failed_at, closed_at FROM homing.dead_letters
  WHERE id > :after ORDER BY id LIMIT (:page)::integer FOR UPDATE SKIP LOCKED),
gone AS (
  DELETE FROM homing.dead_letters l USING batch b, cut
  WHERE l.id = b.id AND coalesce(b.closed_at, b.failed_at) < cut.at
    AND (b.closed_at IS NOT NULL OR NOT EXISTS (SELECT FROM homing.outbox_events e WHERE e.id = b.event_id OFFSET 0))
  RETURNING l.closed_at)
SELECT (SELECT count(*) FROM batch) AS seen, (SELECT max(id) FROM batch) AS last,
  (SELECT bool_or(b.failed_at >= cut.at) FROM batch b, cut) AS young,
  (SELECT count(*) FROM gone WHERE closed_at IS NOT NULL) AS letters,
  (SELECT count(*) FROM gone WHERE closed_at IS NULL) AS lost;
