-- actions: a page of what people did, newest first, out of a walk of bounded length over the primary key.
-- Parameters: actor, action text (null = any); since timestamptz (null = whenever); before bigint (the last id of the page before);
-- walk integer (actions looked at, at most); page integer (actions returned, at most).
-- Result: walked and last (how many the walk looked at, and the id at which it ended) in every row, one row at least; id, at, actor, action,
-- subject (JSON text), affected, reason; id null = the walk found none.
-- Guard: none, it only reads. Locks: none. Index: operator_actions_pkey.
WITH walk AS MATERIALIZED (
  SELECT a.id, a.at, a.actor, a.action FROM homing.operator_actions a
  WHERE a.id < (:before)::bigint ORDER BY a.id DESC LIMIT (:walk)::integer)
SELECT (SELECT count(*) FROM walk) AS walked, (SELECT min(w.id) FROM walk w) AS last,
  a.id, least(greatest(a.at, 'epoch'), '9999-12-31') AS at, a.actor, a.action, a.subject::text AS subject, a.affected, a.reason
FROM (SELECT) one
LEFT JOIN LATERAL (
  SELECT w.id FROM walk w
  WHERE ((:actor)::text IS NULL OR w.actor = (:actor)::text) AND ((:action)::text IS NULL OR w.action = (:action)::text)
    AND ((:since)::timestamptz IS NULL OR w.at >= (:since)::timestamptz)
  ORDER BY w.id DESC LIMIT (:page)::integer) f ON true
LEFT JOIN LATERAL (SELECT * FROM homing.operator_actions x WHERE x.id = f.id LIMIT 1) a ON true
ORDER BY a.id DESC;
