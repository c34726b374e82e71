-- register: the routes and queues that this code declares. A route is added when it is first seen and never taken away here.
-- Parameters: topics, consumers, queues, job_names, modes, options (JSON), aliases (JSON arrays): text[], of equal length.
-- Result: consumer, retired_at of every route named, so that a retired one can be reported.
-- Guard: primary keys; a retired route stays retired, that is a person's decision. Locks: the rows. Index: subscriptions_pkey, queues_pkey.
WITH k AS (
  SELECT topic, consumer, queue, job_name, mode, options::jsonb AS options,
    ARRAY(SELECT jsonb_array_elements_text(aliases::jsonb)) AS aliases
  FROM unnest((:topics)::text[], (:consumers)::text[], (:queues)::text[], (:job_names)::text[], (:modes)::text[],
    (:options)::text[], (:aliases)::text[]) AS u(topic, consumer, queue, job_name, mode, options, aliases)),
q AS (INSERT INTO homing.queues (queue) SELECT DISTINCT queue FROM k ORDER BY 1 ON CONFLICT DO NOTHING),
s AS (
  INSERT INTO homing.subscriptions (topic, consumer, queue, job_name, mode, options, aliases)
  SELECT topic, consumer, queue, job_name, mode, options, aliases FROM k ORDER BY 1, 2
  ON CONFLICT (topic, consumer) DO UPDATE SET queue = excluded.queue, job_name = excluded.job_name, mode = excluded.mode,
    options = excluded.options, aliases = excluded.aliases
  WHERE (subscriptions.queue, subscriptions.job_name, subscriptions.mode, subscriptions.options, subscriptions.aliases)
    IS DISTINCT FROM (excluded.queue, excluded.job_name, excluded.mode, excluded.options, excluded.aliases))
SELECT k.consumer, s.retired_at FROM k LEFT JOIN homing.subscriptions s USING (topic, consumer);
