-- act: keep what a person did, in the transaction that does it.
-- Parameters: actor, action, subject (JSON object) text; affected bigint; reason text or null.
-- Result: the action's id.
-- Guard: none, append-only. Locks: the new row. Index: none.
INSERT INTO homing.operator_actions (actor, action, subject, affected, reason)
VALUES (:actor, :action, (:subject)::text::jsonb, (:affected)::bigint, :reason) RETURNING id;
