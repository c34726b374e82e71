-- list: a page of dead letters, newest first.
-- Parameters: consumer, queue, kind, fingerprint, error_class, error_text text; since, until timestamptz; ids bigint[] (null = whatever);
-- open boolean (null = open and closed); before bigint (the last id of the page before); most integer (rows).
-- Result: id, event_id, consumer, generation, queue, kind, error_class, error_text, reason, fingerprint, attempts_made, failed_at, closed_at, closed_as.
-- Guard: none, it only reads. Locks: none. Index: dead_letters_pkey, dead_letters_unclosed, dead_letters_fingerprint or dead_letters_consumer.
SELECT l.id, l.event_id, l.consumer, l.generation, l.queue, l.kind, l.error->>'class' AS error_class,
  l.error->>'text' AS error_text, l.error->>'reason' AS reason, l.fingerprint, l.attempts_made, l.failed_at, l.closed_at, l.closed_as
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
  AND ((:open)::boolean IS NULL OR (l.closed_at IS NULL) = (:open)::boolean)
  AND l.id < (:before)::bigint
ORDER BY l.id DESC LIMIT (:most)::integer;
