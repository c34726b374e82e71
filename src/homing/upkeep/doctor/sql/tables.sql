-- tables: the ledger's tables: what this role may do with them, and how tidy they are.
-- Parameters: none.
-- Result: name, may_read, may_write, live, dead (rows, estimated), autovacuum (false where it was turned off for the table).
-- Guard: none, it only reads. Locks: none. Index: none, the catalogue.
SELECT c.relname::text AS name, has_table_privilege(c.oid, 'SELECT') AS may_read,
  has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE') AS may_write,
  coalesce(s.n_live_tup, 0) AS live, coalesce(s.n_dead_tup, 0) AS dead,
  NOT coalesce('autovacuum_enabled=false' = ANY(c.reloptions) OR 'autovacuum_enabled=off' = ANY(c.reloptions), false) AS autovacuum
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
WHERE n.nspname = 'homing' AND c.relkind = 'r' ORDER BY c.relname;
