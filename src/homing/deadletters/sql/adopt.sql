-- adopt: a person retried a dead job in place: the delivery is pending again, its letter is closed as retried.
-- Parameters: event_id uuid; consumer text; generation smallint; letter bigint (the id in the job's mark).
-- Result: the letter's id; no row when that letter is no longer open or its event is gone, and then the gate decides again.
-- Guard: the letter is open, the row is dead and of that generation. Locks: FOR KEY SHARE on the event, the row, the letter.
-- Index: dead_letters_pkey, outbox_events_pkey, deliveries_pkey.
-- Plan: the parameters name the row, and the letter's guard is closed_as, which no partial index knows: also a young database uses the keys.
WITH e AS (
  SELECT l.id, l.event_id, l.consumer
  FROM homing.dead_letters l JOIN homing.outbox_events o ON o.id = l.event_id
  WHERE l.id = :letter AND (l.event_id, l.consumer) = (:event_id, :consumer) AND l.closed_as IS NULL
  FOR KEY SHARE OF o),
d AS (
  UPDATE homing.deliveries d
  SET outcome = NULL, settled_at = NULL, opened_at = clock_timestamp(), check_at = now() + interval '1 h'
  FROM e WHERE (d.event_id, d.consumer) = (:event_id, :consumer) AND d.generation = :generation AND d.outcome = 'dead'
  RETURNING e.id)
UPDATE homing.dead_letters l SET closed_at = clock_timestamp(), closed_as = 'retried', closed_by = 'engine'
FROM d WHERE l.id = d.id RETURNING l.id;
