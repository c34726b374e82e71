-- retire: new events of its topics go to this consumer no more; what is open for it stays open.
-- Parameters: consumer text; topic text (null = all of its topics).
-- Result: topic of every route that was retired.
-- Guard: retired_at. Locks: the routes, until the end of the transaction; routing only reads them. Index: subscriptions_pkey.
UPDATE homing.subscriptions SET retired_at = clock_timestamp()
WHERE consumer = (:consumer)::text AND ((:topic)::text IS NULL OR topic = (:topic)::text) AND retired_at IS NULL RETURNING topic;
