-- Record: keep events with the change that caused them, in the caller's transaction.
--
-- :events  text, a JSON array of {id, topic, aggregateId, payload, headers, availableAt}; aggregateId and availableAt may be
--          null, availableAt is an ISO 8601 time with its offset (null: eligible at once, by the server's clock)
-- :ledger  text, the uuid of the ledger that must be here, or null when any ledger will do
-- Result   one row: the ledger's id as text, and how many events were new; no row when the ledger has not been set up
-- Guard    nothing is inserted unless the ledger is the expected one; an id that is there already is left as it is
-- Locks    the new rows only; a transaction that is recording the same id at the same time is waited for
-- Index    outbox_events_pkey decides which ids are new
-- Wakes    the relay through channel homing_outbox when the caller commits: the payload is empty, and the server sends equal
--          notifications once per transaction

WITH recorded AS (
  INSERT INTO homing.outbox_events (id, topic, aggregate_id, payload, headers, available_at)
  SELECT event.id, event.topic, event."aggregateId", event.payload, event.headers,
         coalesce(event."availableAt", clock_timestamp())
  FROM homing.ledger
  CROSS JOIN jsonb_to_recordset(CAST(CAST(:events AS text) AS jsonb)) AS event(
    id uuid, topic text, "aggregateId" text, payload jsonb, headers jsonb, "availableAt" timestamptz)
  WHERE coalesce(ledger.ledger_id = CAST(CAST(:ledger AS text) AS uuid), true)
  ON CONFLICT (id) DO NOTHING
  RETURNING id),
counted AS (SELECT count(*) AS events FROM recorded)
SELECT CAST(ledger.ledger_id AS text), counted.events,
       CASE WHEN counted.events > 0 THEN pg_notify('homing_outbox', '') END
FROM homing.ledger CROSS JOIN counted;
