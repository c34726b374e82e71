-- count_page: a campaign has taken a page of letters: how many were redriven, and why others were not.
-- Parameters: campaign, runner uuid; last bigint (the last letter of the page); redriven bigint (of the page); refused (JSON, by reason, of the whole campaign) text.
-- Result: the campaign's id; no row when it was ended or taken over meanwhile: then recount.
-- Guard: state and lease. Locks: the row, for this statement. Index: redrive_campaigns_pkey.
UPDATE homing.redrive_campaigns SET
  cursor = greatest(cursor, (:last)::bigint), redriven = redriven + (:redriven)::bigint, refused = (:refused)::text::jsonb
WHERE id = (:campaign)::uuid AND state = 'running' AND runner = (:runner)::uuid
RETURNING id;
