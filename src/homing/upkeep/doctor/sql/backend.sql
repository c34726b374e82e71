-- backend: which server process answers.
-- Parameters: none.
-- Result: pid.
-- Guard: none. Locks: none. Index: none.
SELECT pg_backend_pid() AS pid;
