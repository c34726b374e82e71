-- totals: how much the ledger holds: counted up to a threshold, beyond it as the last vacuum or analyze estimated.
-- Parameters: most integer (rows that are counted, at most).
-- Result: one row: events, deliveries, letters, and whether each is an estimate: events_about, deliveries_about, letters_about.
-- Guard: none, it only reads. Locks: none. Index: the primary keys.
SELECT e.counted >= t.most AS events_about, d.counted >= t.most AS deliveries_about, l.counted >= t.most AS letters_about,
  CASE WHEN e.counted < t.most THEN e.counted ELSE greatest(t.events, t.most) END AS events,
  CASE WHEN d.counted < t.most THEN d.counted ELSE greatest(t.deliveries, t.most) END AS deliveries,
  CASE WHEN l.counted < t.most THEN l.counted ELSE greatest(t.letters, t.most) END AS letters
FROM (
  SELECT (:most)::bigint AS most,
    (SELECT c.reltuples::bigint FROM pg_class c WHERE c.oid = 'homing.outbox_events'::regclass) AS events,
    (SELECT c.reltuples::bigint FROM pg_class c WHERE c.oid = 'homing.deliveries'::regclass) AS deliveries,
    (SELECT c.reltuples::bigint FROM pg_class c WHERE c.oid = 'homing.dead_letters'::regclass) AS letters) t
CROSS JOIN LATERAL (SELECT count(*) AS counted FROM (SELECT o.id FROM homing.outbox_events o LIMIT t.most) x) e
CROSS JOIN LATERAL (SELECT count(*) AS counted FROM (SELECT d.event_id FROM homing.deliveries d LIMIT t.most) x) d
CROSS JOIN LATERAL (SELECT count(*) AS counted FROM (SELECT l.id FROM homing.dead_letters l LIMIT t.most) x) l;
