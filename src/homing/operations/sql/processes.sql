-- processes: which workers and relays have shown themselves lately.
-- Parameters: since_seconds float8 (how long ago at the most).
-- Result: id, host, pid, version, role, routes, consumers, queues, started_at, state, silent_seconds; the newest first.
-- Guard: none, it only reads. Locks: none. Index: none, the table has a row per process.
SELECT w.id, w.host, w.pid, w.version, w.role, w.routes, w.consumers, w.queues, w.started_at, w.state::text AS state,
  extract(epoch FROM clock_timestamp() - w.seen_at)::float8 AS silent_seconds
FROM homing.workers w
WHERE w.seen_at > now() - make_interval(secs => (:since_seconds)::float8)
ORDER BY w.started_at DESC;
