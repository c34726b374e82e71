-- settled_ticks: what became of some ticks, as the inbox has it.
-- Parameters: ids uuid[].
-- Result: event_id, outcome (null while a run is under way), settled_at.
-- Guard: none, it only reads. Locks: none. Index: deliveries_pkey.
SELECT event_id, outcome, settled_at FROM homing.deliveries WHERE event_id = ANY((:ids)::uuid[]);
