-- tail_letters: deaths after a letter, in order.
-- Parameters: letter bigint (the last one seen; null = tell only which is the newest); consumer, queue text (null = any); page integer.
-- Result: newest (the newest letter there is) in every row, one row at least; id, event_id, consumer, queue, generation, kind, error_class,
-- error_text (its beginning), failed_at; id null = none.
-- Guard: none, it only reads. Locks: none. Index: dead_letters_pkey.
SELECT n.newest, f.id, f.event_id, f.consumer, f.queue, f.generation, f.kind, f.error->>'class' AS error_class,
  left(f.error->>'text', 400) AS error_text, least(greatest(f.failed_at, 'epoch'), '9999-12-31') AS failed_at
FROM (SELECT coalesce(max(l.id), 0) AS newest FROM homing.dead_letters l) n
LEFT JOIN LATERAL (
  SELECT * FROM homing.dead_letters l
  WHERE l.id > (:letter)::bigint AND ((:consumer)::text IS NULL OR l.consumer = (:consumer)::text)
    AND ((:queue)::text IS NULL OR l.queue = (:queue)::text)
  ORDER BY l.id LIMIT (:page)::integer) f ON true
ORDER BY f.id;
