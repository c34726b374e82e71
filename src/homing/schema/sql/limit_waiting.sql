-- Bound how long each later statement of this transaction waits for a lock.
-- Parameters: :limit_text is a duration as PostgreSQL writes it, such as 5000ms. Holds until the transaction ends.
SELECT set_config('lock_timeout', :limit_text, true);
