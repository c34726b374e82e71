-- once: whether this is the first time that a consumer meets a message, decided in the caller's transaction.
--
-- :event_id  uuid as text, the message's place in the inbox
-- :consumer  text, on whose behalf; another consumer meets the message for itself
-- :ledger    text, the uuid of the ledger that must be here, or null when any ledger will do
-- :wait      text, how long to wait for another transaction where the connection sets no lock_timeout of its own
-- Result   one row: the ledger's id as text, and whether the caller is the first; no row when the ledger has not been set up
-- Guard    the primary key, and settled_at where a job of that message waits to run: nothing is written unless the ledger is the
--          expected one
-- Locks    this one row until the caller's transaction ends; a transaction that claims the same message is waited for, and where
--          lock_timeout ends the wait the statement fails with 55P03. The caller's lock_timeout is as before afterwards
-- Index    deliveries_pkey

WITH bounded AS MATERIALIZED (
  SELECT before.value, set_config('lock_timeout', CASE before.value WHEN '0' THEN CAST(:wait AS text) ELSE before.value END, true) AS now
  FROM (SELECT current_setting('lock_timeout') AS value) AS before),
settled AS (
  INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, origin, outcome, settled_at)
  SELECT CAST(CAST(:event_id AS text) AS uuid), CAST(:consumer AS text), '', '', 'job', 'done', clock_timestamp()
  FROM homing.ledger CROSS JOIN bounded
  WHERE bounded.now IS NOT NULL AND coalesce(ledger.ledger_id = CAST(CAST(:ledger AS text) AS uuid), true)
  ON CONFLICT (event_id, consumer) DO UPDATE SET outcome = 'done', settled_at = clock_timestamp()
    WHERE deliveries.settled_at IS NULL
  RETURNING event_id),
counted AS (SELECT count(*) AS rows FROM settled)
SELECT CAST(ledger.ledger_id AS text), counted.rows > 0, set_config('lock_timeout', bounded.value, true)
FROM homing.ledger CROSS JOIN counted CROSS JOIN bounded;
