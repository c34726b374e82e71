-- count_letter: a campaign has taken one letter; last in the transaction that redrives it, so that the counts are exact.
-- Parameters: campaign, runner uuid; letter bigint; refusal text (why it was not redriven; null when it was).
-- Result: the campaign's id; no row when it was stopped, or another runner took it: then the transaction must be rolled back.
-- Guard: state and lease. Locks: the row, until the transaction ends. Index: redrive_campaigns_pkey.
UPDATE homing.redrive_campaigns SET
  cursor = greatest(cursor, (:letter)::bigint),
  redriven = redriven + ((:refusal)::text IS NULL)::int,
  refused = CASE WHEN (:refusal)::text IS NULL THEN refused
    ELSE refused || jsonb_build_object((:refusal)::text, coalesce((refused->>(:refusal)::text)::bigint, 0) + 1) END
WHERE id = (:campaign)::uuid AND state = 'running' AND runner = (:runner)::uuid
RETURNING id;
