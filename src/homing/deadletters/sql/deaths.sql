-- deaths: how many of the deliveries that a campaign redrove died again as they had died before; written down and returned.
-- Parameters: campaign uuid; last_letter bigint (the newest letter at its start, so that only later ones are read).
-- Result: one row: died_again; worst, worst_fingerprint (the fingerprint with most of them, null without any).
-- Guard: none, a count. Locks: the campaign's row, for this statement. Index: dead_letters_pkey, dead_letters_history, redrive_campaigns_pkey.
WITH died AS (
  SELECT n.fingerprint, count(*) AS deaths
  FROM homing.dead_letters n
  JOIN homing.dead_letters l ON l.event_id = n.event_id AND l.consumer = n.consumer AND l.generation = n.generation - 1
  WHERE n.id > (:last_letter)::bigint AND l.campaign = (:campaign)::uuid AND l.fingerprint = n.fingerprint
  GROUP BY n.fingerprint)
UPDATE homing.redrive_campaigns c SET died_again = (SELECT coalesce(sum(deaths), 0) FROM died)
WHERE c.id = (:campaign)::uuid
RETURNING c.died_again, (SELECT max(deaths) FROM died) AS worst,
  (SELECT fingerprint FROM died ORDER BY deaths DESC, fingerprint LIMIT 1) AS worst_fingerprint;
