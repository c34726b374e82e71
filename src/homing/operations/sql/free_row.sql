-- free_row: whether nobody holds a delivery's row: its handler's transaction does from settle to commit.
-- Parameters: event_id uuid; consumer text.
-- Result: one row when it is free; none when a transaction holds it, or when there is no such delivery.
-- Guard: none. Locks: the row, shared, for this statement, and only where that waits for nobody. Index: deliveries_pkey.
SELECT consumer FROM homing.deliveries WHERE event_id = :event_id AND consumer = :consumer FOR SHARE SKIP LOCKED;
