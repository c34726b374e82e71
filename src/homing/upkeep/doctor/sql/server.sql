-- server: what the server and this session say about themselves.
-- Parameters: none.
-- Result: one row: settings as this role gets them (times in milliseconds, 0 = none), connections (of clients, now), the oldest
--   transaction that keeps vacuum from tidying (oldest_seconds, oldest_who; 0 and null without), asynchronous standbys, and the time.
-- Guard: none, it only reads. Locks: none. Index: none, system views.
SELECT current_user::text AS role, current_setting('synchronous_commit') AS synchronous_commit, current_setting('fsync') AS fsync,
  current_setting('autovacuum') AS autovacuum, current_setting('default_transaction_isolation') AS isolation,
  current_setting('default_transaction_read_only') AS read_only, pg_is_in_recovery() AS is_standby,
  current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer AS usable_connections,
  (SELECT count(*) FROM pg_stat_activity a WHERE a.backend_type = 'client backend') AS connections,
  (SELECT s.setting::bigint FROM pg_settings s WHERE s.name = 'statement_timeout') AS statement_timeout_ms,
  (SELECT s.setting::bigint FROM pg_settings s WHERE s.name = 'idle_in_transaction_session_timeout') AS idle_timeout_ms,
  (SELECT s.setting::bigint FROM pg_settings s WHERE s.name = 'lock_timeout') AS lock_timeout_ms,
  (SELECT count(*) FROM pg_stat_replication r WHERE r.sync_state = 'async') AS async_standbys,
  coalesce(o.seconds, 0)::float8 AS oldest_seconds, o.who AS oldest_who, clock_timestamp() AS now
FROM (VALUES (1)) AS one LEFT JOIN LATERAL (
  SELECT extract(epoch FROM now() - a.xact_start) AS seconds,
    format('pid %s of %s (%s)', a.pid, coalesce(a.usename, '?'), coalesce(nullif(a.application_name, ''), 'no name')) AS who
  FROM pg_stat_activity a
  WHERE a.backend_xmin IS NOT NULL AND a.pid <> pg_backend_pid() AND a.datname = current_database() AND a.xact_start IS NOT NULL
  ORDER BY a.xact_start LIMIT 1) o ON true;
