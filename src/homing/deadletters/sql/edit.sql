-- edit: give one delivery another payload than its event's; in the transaction that redrives it.
-- Parameters: event_id uuid; consumer text; edited (JSON: payload, version) text.
-- Result: nothing of interest.
-- Guard: none, redrive holds the row. Locks: the row, until the transaction ends. Index: deliveries_pkey.
UPDATE homing.deliveries SET edited = (:edited)::text::jsonb WHERE event_id = :event_id AND consumer = :consumer;
