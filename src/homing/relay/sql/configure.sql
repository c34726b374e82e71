-- configure: what this code declares for queues: how many jobs may run, and how many may start. A change of the code counts;
--   as long as it stays the same, what people set in the row meanwhile stays too. What is declared no more becomes null, which
--   takes it out of the engine.
-- Parameters: queues, settings (JSON objects): text[], of equal length.
-- Result: none.
-- Guard: primary key; a row whose declaration is the same is not touched. Locks: the rows. Index: queues_pkey.
INSERT INTO homing.queues (queue, settings)
SELECT queue, settings::jsonb || jsonb_build_object('declared', settings::jsonb)
FROM unnest((:queues)::text[], (:settings)::text[]) AS u(queue, settings) ORDER BY 1
ON CONFLICT (queue) DO UPDATE SET settings = queues.settings
  || coalesce((SELECT jsonb_object_agg(name, NULL::text) FROM jsonb_object_keys(queues.settings->'declared') AS k(name)), '{}')
  || excluded.settings
WHERE coalesce(queues.settings->'declared', '{}') IS DISTINCT FROM excluded.settings->'declared';
