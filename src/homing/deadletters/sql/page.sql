-- page: the next open letters of a campaign, oldest first.
-- Parameters: consumer, queue, kind, fingerprint, error_class, error_text text; since, until timestamptz; ids bigint[] (null = whatever);
-- after bigint (the last letter taken); last bigint (the newest letter at the campaign's start); most integer (rows).
-- Result: id, consumer.
-- Guard: none, it only reads: redrive guards each letter. Locks: none. Index: dead_letters_unclosed, dead_letters_fingerprint or dead_letters_pkey.
SELECT l.id, l.consumer FROM homing.dead_letters l
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
  AND l.closed_at IS NULL AND l.id > (:after)::bigint AND l.id <= (:last)::bigint
ORDER BY l.id LIMIT (:most)::integer;
