-- leave: this process ends in good order.
-- Parameters: id uuid.
-- Result: nothing.
-- Guard: primary key. Locks: this process's own row. Index: workers_pkey.
DELETE FROM homing.workers WHERE id = :id;
