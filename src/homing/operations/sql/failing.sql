-- failing: what died lately, by consumer and class of error, out of the newest letters.
-- Parameters: since_seconds float8 (how long ago at the most); walk integer (letters looked at, at most); page integer (groups).
-- Result: consumer, error_class, deaths, open (of those), newest_seconds (since the last one), letter (its id); the most deaths first.
-- Guard: none, it only reads. Locks: none. Index: dead_letters_pkey.
SELECT l.consumer, coalesce(l.error->>'class', '') AS error_class, count(*) AS deaths, count(*) FILTER (WHERE l.closed_at IS NULL) AS open,
  greatest(extract(epoch FROM clock_timestamp() - max(l.failed_at)), 0)::float8 AS newest_seconds, max(l.id) AS letter
FROM (SELECT * FROM homing.dead_letters d ORDER BY d.id DESC LIMIT (:walk)::integer) l
WHERE l.failed_at > now() - make_interval(secs => (:since_seconds)::float8)
GROUP BY 1, 2 ORDER BY deaths DESC, consumer, error_class LIMIT (:page)::integer;
