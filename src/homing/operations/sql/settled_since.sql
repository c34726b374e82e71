-- settled_since: deliveries that were opened and settled between two looks, per consumer, of events recorded lately.
-- Parameters: first uuid (the first event id that counts); since timestamptz (the first look); walk integer (deliveries looked at, at most).
-- Result: consumer, settled.
-- Guard: none, it only reads. Locks: none. Index: deliveries_pkey.
SELECT d.consumer, count(*) AS settled
FROM (
  SELECT x.consumer, x.opened_at, x.settled_at FROM homing.deliveries x
  WHERE x.event_id >= (:first)::uuid ORDER BY x.event_id DESC LIMIT (:walk)::integer) d
WHERE d.settled_at IS NOT NULL AND d.opened_at > (:since)::timestamptz GROUP BY d.consumer;
