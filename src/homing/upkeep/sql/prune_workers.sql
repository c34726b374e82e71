-- prune_workers: forget processes that were not heard of for so long that they must be gone; one that lives after all is listed again.
-- Parameters: silent_seconds float8; page integer.
-- Result: workers: how many rows left.
-- Guard: seen_at. Locks: the rows, skipping those held. Index: none, the table has a row per process.
WITH silent AS (
  SELECT id FROM homing.workers WHERE seen_at < now() - make_interval(secs => (:silent_seconds)::float8)
  ORDER BY seen_at LIMIT (:page)::integer FOR UPDATE SKIP LOCKED),
x AS (DELETE FROM homing.workers w USING silent WHERE w.id = silent.id RETURNING w.id)
SELECT count(*) AS workers FROM x;
