-- look: a page of unsettled deliveries to compare with the engine: those of an older epoch, then those whose time has come.
-- Parameters: queue text; epoch integer (verified on this connection); page integer (rows); grace_seconds float8 (how long a new epoch waits;
-- the first one does not, since nothing of it can have been lost).
-- Result: event_id, consumer, generation, epoch, job_name, opened_at; at most `page` rows.
-- Guard: none, plain read by the holder of the queue's sweeper lease. Locks: none. Index: deliveries_unsettled, queues_pkey.
(SELECT event_id, consumer, generation, epoch, job_name, opened_at FROM homing.deliveries
 WHERE queue = (:queue)::text AND settled_at IS NULL AND epoch < (:epoch)::integer
   AND (SELECT (:epoch)::integer = 1 OR q.changed_at + make_interval(secs => (:grace_seconds)::float8) <= now()
        FROM homing.queues q WHERE q.queue = (:queue)::text)
 ORDER BY epoch, check_at LIMIT (:page)::integer)
UNION ALL
(SELECT event_id, consumer, generation, epoch, job_name, opened_at FROM homing.deliveries
 WHERE queue = (:queue)::text AND settled_at IS NULL AND epoch = (:epoch)::integer AND check_at <= now()
 ORDER BY check_at LIMIT (:page)::integer)
LIMIT (:page)::integer;
