-- died_since: deaths after a letter, per consumer.
-- Parameters: letter bigint (the newest one of the first look).
-- Result: consumer, deaths.
-- Guard: none, it only reads. Locks: none. Index: dead_letters_pkey.
SELECT l.consumer, count(*) AS deaths FROM homing.dead_letters l WHERE l.id > (:letter)::bigint GROUP BY l.consumer;
