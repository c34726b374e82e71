-- beat: this process lives, these are the consumers it knows, and this is what it does now.
-- Parameters: id uuid; host text; pid integer; version text; role text; routes boolean (whether a relay's loops turn in it); consumers,
-- queues text[]; state text (a JSON object).
-- Result: nothing.
-- Guard: primary key. Locks: this process's own row. Index: workers_pkey.
INSERT INTO homing.workers (id, host, pid, version, role, routes, consumers, queues, state)
VALUES (:id, :host, :pid, :version, :role, :routes, :consumers, :queues, (:state)::jsonb)
ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp(), state = excluded.state;
