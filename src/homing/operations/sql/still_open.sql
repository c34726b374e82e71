-- still_open: how many of the deliveries that the first look counted are unsettled at the second one.
-- Parameters: consumers text[]; horizons timestamptz[], of equal length; most integer (as at the first look).
-- Result: consumer, unsettled; one row for each consumer asked for.
-- Guard: none, it only reads. Locks: none. Index: deliveries_by_consumer.
SELECT k.consumer, work.unsettled
FROM unnest((:consumers)::text[], (:horizons)::timestamptz[]) AS k(consumer, horizon)
CROSS JOIN LATERAL (
  SELECT count(*) AS unsettled FROM (
    SELECT FROM homing.deliveries d WHERE d.consumer = k.consumer AND d.settled_at IS NULL AND d.opened_at <= k.horizon
    ORDER BY d.opened_at LIMIT (:most)::integer) x) work;
