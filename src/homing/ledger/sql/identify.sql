-- identify: a queue's data has an identity that was never seen: give it the next epoch, which makes every older delivery due.
-- Parameters: queue text; identity text.
-- Result: the new epoch; no row when the identity is known.
-- Guard: primary key of queue_epochs. Locks: the queue's row, which serialises relays. Index: queues_pkey, queue_epochs_pkey.
WITH q AS (SELECT queue, epoch FROM homing.queues WHERE queue = :queue FOR UPDATE),
n AS (
  INSERT INTO homing.queue_epochs (queue, identity, epoch)
  SELECT queue, :identity, epoch + 1 FROM q
  ON CONFLICT (queue, identity) DO NOTHING RETURNING epoch)
UPDATE homing.queues SET epoch = n.epoch, changed_at = now()
FROM n WHERE queue = :queue RETURNING queues.epoch;
