-- beat: this process lives, and these are the consumers it knows.
-- Parameters: id uuid; host text; pid integer; version text; role text; consumers, queues text[].
-- Result: nothing.
-- Guard: primary key. Locks: this process's own row. Index: workers_pkey.
INSERT INTO homing.workers (id, host, pid, version, role, consumers, queues)
VALUES (:id, :host, :pid, :version, :role, :consumers, :queues)
ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp();
