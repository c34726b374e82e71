-- histogram: when letters of some groups died, open and closed ones alike, out of the newest letters.
-- Parameters: fingerprints text[]; span_seconds float8 (how long ago at the most); slots integer (into how many parts that time is cut);
-- walk integer (letters looked at, at most).
-- Result: fingerprint, slot (0 = the oldest part), deaths; nothing for a part without any.
-- Guard: none, it only reads. Locks: none. Index: dead_letters_pkey.
SELECT l.fingerprint,
  least(floor((1 - extract(epoch FROM now() - l.failed_at) / (:span_seconds)::float8) * (:slots)::integer), (:slots)::integer - 1)::integer AS slot,
  count(*) AS deaths
FROM (SELECT d.fingerprint, d.failed_at FROM homing.dead_letters d ORDER BY d.id DESC LIMIT (:walk)::integer) l
WHERE l.fingerprint = ANY((:fingerprints)::text[])
  AND l.failed_at > now() - make_interval(secs => (:span_seconds)::float8) AND l.failed_at <= now()
GROUP BY 1, 2 ORDER BY 1, 2;
