-- prune_inbox: forget settled jobs of other producers once no source can hand them over again; those with an event leave with it.
-- Parameters: event_ids uuid[], consumers text[] (of equal length, locked in the same transaction).
-- Result: one row: inbox, how many rows left; queues, those that they were of.
-- Guard: no event, re-read here: one that was adopted before the lock stays with its delivery. Locks: the rows.
-- Index: deliveries_pkey, outbox_events_pkey.
WITH x AS (
  DELETE FROM homing.deliveries d USING unnest((:event_ids)::uuid[], (:consumers)::text[]) AS k(event_id, consumer)
  WHERE (d.event_id, d.consumer) = (k.event_id, k.consumer)
    AND NOT EXISTS (SELECT FROM homing.outbox_events e WHERE e.id = d.event_id)
  RETURNING d.queue)
SELECT count(*) AS inbox, coalesce(array_agg(DISTINCT queue), '{}') AS queues FROM x;
