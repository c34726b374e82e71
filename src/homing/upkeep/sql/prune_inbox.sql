-- prune_inbox: forget settled jobs of other producers once no source can hand them over again; those with an event leave with it.
-- Parameters: event_ids uuid[], consumers text[] (of equal length, locked in the same transaction).
-- Result: one row: inbox, how many rows left; queues, those that they were of.
-- Guard: no event, re-read here: one that was adopted before the lock stays with its delivery. Locks: the rows.
-- Index: deliveries_pkey, outbox_events_pkey.
-- Plan: each key is looked up by itself, and USING tells the planner that little is found: also a young database uses the keys.
WITH k AS MATERIALIZED (
  SELECT d.event_id, d.consumer
  FROM unnest((:event_ids)::uuid[], (:consumers)::text[]) AS u(event_id, consumer)
  JOIN LATERAL (
    SELECT o.event_id, o.consumer FROM homing.deliveries o WHERE (o.event_id, o.consumer) = (u.event_id, u.consumer)
    OFFSET 0) d USING (event_id, consumer)),
x AS (
  DELETE FROM homing.deliveries d USING k
  WHERE (d.event_id, d.consumer) = (k.event_id, k.consumer)
    AND NOT EXISTS (SELECT FROM homing.outbox_events e WHERE e.id = d.event_id OFFSET 0)
  RETURNING d.queue)
SELECT count(*) AS inbox, coalesce(array_agg(DISTINCT queue), '{}') AS queues FROM x;
