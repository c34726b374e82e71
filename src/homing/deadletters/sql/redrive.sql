-- redrive: open a dead delivery again as its next generation, and close its letter; started twice is once.
-- Parameters: letter bigint; by, why text; campaign uuid (null without one).
-- Result: the letter's id with event_id and consumer; no row when it is refused, and then the transaction must be rolled back:
-- a letter that was dismissed in this very moment leaves the delivery opened without closing anything.
-- Guard: the letter is open, its event exists, the delivery is dead and of the letter's generation, which is not the last one.
-- Locks: FOR KEY SHARE on the event (prune waits, or is waited for), the delivery, the letter. Index: dead_letters_pkey, outbox_events_pkey, deliveries_pkey.
-- Plan: the letter's guard is closed_as, which no partial index knows: also a young database uses the key.
WITH e AS (
  SELECT l.id, l.event_id, l.consumer, l.generation
  FROM homing.dead_letters l JOIN homing.outbox_events o ON o.id = l.event_id
  WHERE l.id = (:letter)::bigint AND l.closed_as IS NULL
  FOR KEY SHARE OF o),
d AS (
  UPDATE homing.deliveries d
  SET outcome = NULL, settled_at = NULL, generation = d.generation + 1, epoch = 0, vanished = 0,
    opened_at = clock_timestamp(), check_at = now()
  FROM e
  WHERE (d.event_id, d.consumer, d.generation) = (e.event_id, e.consumer, e.generation)
    AND d.outcome = 'dead' AND d.generation < 32767
  RETURNING e.id)
UPDATE homing.dead_letters l
SET closed_at = clock_timestamp(), closed_as = 'redriven', closed_by = :by, closed_why = :why, campaign = (:campaign)::uuid
FROM d WHERE l.id = (:letter)::bigint AND l.closed_as IS NULL
RETURNING l.id, l.event_id, l.consumer;
