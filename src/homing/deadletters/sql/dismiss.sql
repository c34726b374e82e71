-- dismiss: close open letters without running anything; their deliveries stay dead.
-- Parameters: letters bigint[]; by, why text.
-- Result: the ids of the letters closed; those missing were closed before, or never there.
-- Guard: closed_at. Locks: the letters, until the transaction ends. Index: dead_letters_pkey.
UPDATE homing.dead_letters
SET closed_at = clock_timestamp(), closed_as = 'dismissed', closed_by = :by, closed_why = :why
WHERE id = ANY((:letters)::bigint[]) AND closed_at IS NULL
RETURNING id;
