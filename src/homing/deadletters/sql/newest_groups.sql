-- newest_groups: the newest open letters by fingerprint, the most numerous group first; what a redrive would refuse is not asked.
-- Parameters: consumer, queue, kind, fingerprint, error_class, error_text text; since, until timestamptz; ids bigint[] (null = whatever);
-- walk integer (letters looked at, at most); most integer (groups).
-- Result: per group: fingerprint, letters, oldest and newest (times), consumer, error_class and sample (text) of the newest; in every row also
-- all_letters, over all groups.
-- Guard: none, it only reads. Locks: none. Index: dead_letters_unclosed, dead_letters_fingerprint or dead_letters_consumer, dead_letters_pkey.
WITH found AS MATERIALIZED (
  SELECT l.id, l.fingerprint
  FROM homing.dead_letters l
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
    AND l.closed_at IS NULL
  ORDER BY l.id DESC LIMIT (:walk)::integer),
grouped AS (
  SELECT fingerprint, count(*) AS letters, min(id) AS first_id, max(id) AS last_id, (sum(count(*)) OVER ())::bigint AS all_letters
  FROM found GROUP BY fingerprint ORDER BY letters DESC, fingerprint LIMIT (:most)::integer)
SELECT g.fingerprint, g.letters, f.failed_at AS oldest, l.failed_at AS newest, l.consumer, l.error->>'class' AS error_class,
  l.error->>'text' AS sample, g.all_letters
FROM grouped g
JOIN homing.dead_letters f ON f.id = g.first_id
JOIN homing.dead_letters l ON l.id = g.last_id
ORDER BY g.letters DESC, g.fingerprint;
