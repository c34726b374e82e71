-- probe: notify the relays once, to see that notifications arrive; a relay that hears it only looks once more.
-- Parameters: channel text.
-- Result: nothing of interest.
-- Guard: none. Locks: none. Index: none.
SELECT pg_notify(:channel, '');
