-- tail_actions: what people did after an action, in order.
-- Parameters: seen bigint (the last one seen; null = tell only which is the newest); page integer.
-- Result: newest (the newest action there is) in every row, one row at least; id, at, actor, action, subject (the beginning of its JSON
-- text), affected, reason; id null = none.
-- Guard: none, it only reads. Locks: none. Index: operator_actions_pkey.
SELECT n.newest, f.id, least(greatest(f.at, 'epoch'), '9999-12-31') AS at, f.actor, f.action, left(f.subject::text, 400) AS subject,
  f.affected, f.reason
FROM (SELECT coalesce(max(a.id), 0) AS newest FROM homing.operator_actions a) n
LEFT JOIN LATERAL (
  SELECT * FROM homing.operator_actions a WHERE a.id > (:seen)::bigint ORDER BY a.id LIMIT (:page)::integer) f ON true
ORDER BY f.id;
