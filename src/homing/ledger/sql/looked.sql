-- looked: write down what a look found, after reading the engine and before adding anything to it. What was found gone counts within
--   one epoch only; the next look at what lives is spread over twelve minutes, so that one long page does not come back as one.
-- Parameters: event_ids uuid[]; consumers text[]; generations smallint[]; gone boolean[], of equal length; epoch integer.
-- Result: per row taken: event_id, consumer, generation, gone, vanished, opened_at, now. Rows a handler holds are skipped.
-- Guard: generation and outcome. Locks: the rows, skipping those held, for this statement. Index: deliveries_pkey.
-- Plan: each key is locked by itself, and the guard is outcome, which no partial index knows: also a young database uses the key.
WITH p AS (
  SELECT d.event_id, d.consumer, k.gone
  FROM unnest((:event_ids)::uuid[], (:consumers)::text[], (:generations)::smallint[], (:gone)::boolean[])
    AS k(event_id, consumer, generation, gone)
  JOIN LATERAL (
    SELECT o.event_id, o.consumer, o.generation FROM homing.deliveries o
    WHERE (o.event_id, o.consumer, o.generation) = (k.event_id, k.consumer, k.generation) AND o.outcome IS NULL
    FOR UPDATE SKIP LOCKED) d USING (event_id, consumer, generation))
UPDATE homing.deliveries d SET
  check_at = now() + CASE WHEN p.gone THEN interval '30 s' ELSE interval '1 h' * (0.9 + 0.2 * random()) END,
  vanished = CASE WHEN d.epoch = (:epoch)::integer THEN d.vanished + p.gone::int ELSE 0 END,
  epoch = (:epoch)::integer
FROM p WHERE (d.event_id, d.consumer) = (p.event_id, p.consumer)
RETURNING d.event_id, d.consumer, d.generation, p.gone, d.vanished, d.opened_at, clock_timestamp() AS now;
