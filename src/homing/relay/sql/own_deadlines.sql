-- own_deadlines: how long jobs of these kinds may wait that no relay made: as long as a delivery of their handler.
-- Parameters: queue text; job_names text[].
-- Result: job_name, options of the subscription (JSON text), one row per subscription of a handler of ours.
-- Guard: none, it only reads. Locks: none. Index: none needed, a row per route.
SELECT job_name, options::text AS options FROM homing.subscriptions
WHERE queue = (:queue)::text AND job_name = ANY((:job_names)::text[]) AND mode IN ('tx', 'after');
