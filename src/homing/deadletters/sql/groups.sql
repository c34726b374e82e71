-- groups: open letters by fingerprint, the most numerous first, and how many of them a redrive would refuse.
-- Parameters: consumer, queue, kind, fingerprint, error_class, error_text text; since, until timestamptz; ids bigint[] (null = whatever);
-- most integer (groups).
-- Result: per group: fingerprint, consumer, error_class, letters, gone (their event was pruned), settled (their delivery is not dead any more),
-- oldest, newest (times), sample (text of the newest); in every row also all_letters, all_gone, all_settled, all_oldest, all_newest, over all groups.
-- Guard: none, it only reads. Locks: none. Index: dead_letters_unclosed, dead_letters_fingerprint, outbox_events_pkey, deliveries_pkey.
WITH found AS (
  SELECT l.id, l.fingerprint, l.consumer, l.error->>'class' AS error_class, l.failed_at,
    o.id IS NULL AS gone, o.id IS NOT NULL AND d.outcome IS DISTINCT FROM 'dead' AS settled
  FROM homing.dead_letters l
  -- The limits keep the planner from reading both tables whole: they may be thousands of times larger than what is open.
  LEFT JOIN LATERAL (SELECT e.id FROM homing.outbox_events e WHERE e.id = l.event_id LIMIT 1) o ON true
  LEFT JOIN LATERAL (SELECT x.outcome FROM homing.deliveries x WHERE x.event_id = l.event_id AND x.consumer = l.consumer LIMIT 1) d ON true
  WHERE
    ((:consumer)::text IS NULL OR l.consumer = (:consumer)::text)
  AND ((:queue)::text IS NULL OR l.queue = (:queue)::text)
  AND ((:kind)::text IS NULL OR l.kind = (:kind)::text)
  AND ((:fingerprint)::text IS NULL OR l.fingerprint = (:fingerprint)::text)
  AND ((:error_class)::text IS NULL OR l.error->>'class' = (:error_class)::text)
  AND ((:error_text)::text IS NULL OR position(lower((:error_text)::text) IN lower(l.error->>'text')) > 0)
  AND ((:since)::timestamptz IS NULL OR l.failed_at >= (:since)::timestamptz)
  AND ((:until)::timestamptz IS NULL OR l.failed_at < (:until)::timestamptz)
  AND ((:ids)::bigint[] IS NULL OR l.id = ANY((:ids)::bigint[]))
    AND l.closed_at IS NULL),
grouped AS (
  SELECT fingerprint, min(consumer) AS consumer, min(error_class) AS error_class, count(*) AS letters,
    count(*) FILTER (WHERE gone) AS gone, count(*) FILTER (WHERE settled) AS settled,
    min(failed_at) AS oldest, max(failed_at) AS newest, max(id) AS sample_letter
  FROM found GROUP BY fingerprint)
SELECT g.fingerprint, g.consumer, g.error_class, g.letters, g.gone, g.settled, g.oldest, g.newest,
  (SELECT l.error->>'text' FROM homing.dead_letters l WHERE l.id = g.sample_letter) AS sample,
  (sum(g.letters) OVER ())::bigint AS all_letters, (sum(g.gone) OVER ())::bigint AS all_gone,
  (sum(g.settled) OVER ())::bigint AS all_settled, min(g.oldest) OVER () AS all_oldest, max(g.newest) OVER () AS all_newest
FROM grouped g ORDER BY g.letters DESC, g.fingerprint LIMIT (:most)::integer;
