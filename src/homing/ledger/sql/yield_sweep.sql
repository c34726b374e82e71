-- yield_sweep: give up the right to look, so that the next process need not wait until the lease has ended.
-- Parameters: sweeper uuid (this process).
-- Result: nothing of interest.
-- Guard: sweeper. Locks: the queues' rows that are ours. Index: none needed, a row per queue.
UPDATE homing.queues SET sweeper = NULL, sweeper_until = '-infinity' WHERE sweeper = :sweeper;
