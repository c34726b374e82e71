-- history: every death of one delivery, the first one first.
-- Parameters: event_id uuid; consumer text; most integer (rows).
-- Result: id, generation, kind, error_class, error_text, failed_at, closed_at, closed_as, closed_by.
-- Guard: none, it only reads. Locks: none. Index: dead_letters_history.
SELECT id, generation, kind, error->>'class' AS error_class, error->>'text' AS error_text, failed_at, closed_at, closed_as, closed_by
FROM homing.dead_letters WHERE event_id = :event_id AND consumer = :consumer ORDER BY id LIMIT (:most)::integer;
