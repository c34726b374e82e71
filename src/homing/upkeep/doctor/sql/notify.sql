-- notify: send a notification to whoever listens, which is the connection that asks.
-- Parameters: channel text.
-- Result: nothing of interest.
-- Guard: none. Locks: none. Index: none.
SELECT pg_notify(:channel, '');
