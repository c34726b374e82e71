-- event_deaths: every death of the deliveries of one event, in order.
-- Parameters: event_id uuid; most integer (rows).
-- Result: id, consumer, generation, kind, error_class, error_text (its beginning), attempts_made, failed_at, closed_at, closed_as, closed_by.
-- Guard: none, it only reads. Locks: none. Index: dead_letters_history.
SELECT l.id, l.consumer, l.generation, l.kind, l.error->>'class' AS error_class, left(l.error->>'text', 400) AS error_text, l.attempts_made,
  least(greatest(l.failed_at, 'epoch'), '9999-12-31') AS failed_at,
  nullif(least(greatest(l.closed_at, 'epoch'), '9999-12-31'), 'epoch') AS closed_at, l.closed_as, l.closed_by
FROM homing.dead_letters l WHERE l.event_id = (:event_id)::uuid ORDER BY l.consumer, l.id LIMIT (:most)::integer;
