-- Nothing stays lost: what the repair of losses, dead letters, retention and upkeep need beyond the first tables.
-- As in 0001: the exact meaning of each column is in docs/reference/tables.md, and nothing here locks an application's own tables.

-- Vacuum by rows, not by share of the table: every routed event and every settled delivery leaves one dead row behind, and the
-- questions that are asked all day walk over the dead ends of their index entries. With the default share of a fifth, a table of
-- five million rows lets a million of them pile up; and the default shortcut that leaves indexes alone is what must not be taken.
ALTER TABLE homing.outbox_events SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, vacuum_index_cleanup = on);
ALTER TABLE homing.deliveries SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, vacuum_index_cleanup = on);

-- ── Dead letters are found, grouped and redriven ────────────────────────────────────────────────────────────────────

CREATE INDEX dead_letters_unclosed ON homing.dead_letters (id) WHERE closed_at IS NULL;
CREATE INDEX dead_letters_fingerprint ON homing.dead_letters (fingerprint, id) WHERE closed_at IS NULL;
CREATE INDEX dead_letters_consumer ON homing.dead_letters (consumer, id);
CREATE INDEX dead_letters_history ON homing.dead_letters (event_id, consumer, id);
CREATE INDEX dead_letters_campaign ON homing.dead_letters (campaign) WHERE campaign IS NOT NULL;

-- What one delivery carries instead of its event's payload, after a person edited it: {"payload": …, "version": …}.
ALTER TABLE homing.deliveries ADD COLUMN edited jsonb CHECK (edited ? 'payload' AND edited ? 'version');

CREATE TABLE homing.redrive_campaigns (                   -- letters that a person decided to run again, and how far that is
  id uuid PRIMARY KEY,
  filter jsonb NOT NULL,
  started_by text NOT NULL CHECK (started_by <> ''),
  reason text NOT NULL CHECK (reason <> ''),
  rate double precision NOT NULL CHECK (rate > 0),        -- letters per second
  canary integer NOT NULL CHECK (canary >= 0),
  canary_passed_at timestamptz,
  stop_after integer CHECK (stop_after > 0),              -- deaths of one fingerprint; null = never
  state text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'paused', 'stopped', 'finished')),
  last_letter bigint NOT NULL,                            -- the newest letter at the start: later deaths are not its own
  cursor bigint NOT NULL DEFAULT 0,                       -- the last letter that was taken
  matched bigint NOT NULL,
  redriven bigint NOT NULL DEFAULT 0,
  refused jsonb NOT NULL DEFAULT '{}',                    -- how many, by reason
  died_again bigint NOT NULL DEFAULT 0,                   -- as its runner saw it last
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  ended_at timestamptz,
  end_reason text,
  runner uuid,
  runner_until timestamptz NOT NULL DEFAULT '-infinity',
  CHECK ((ended_at IS NOT NULL) = (state IN ('stopped', 'finished'))));
CREATE INDEX redrive_campaigns_running ON homing.redrive_campaigns (started_at) WHERE state = 'running';

-- Seen: what operators ask every few seconds, per consumer and per topic, without walking over what is settled or routed.
CREATE INDEX deliveries_by_consumer ON homing.deliveries (consumer, opened_at) INCLUDE (check_at) WHERE settled_at IS NULL;
CREATE INDEX dead_letters_by_consumer ON homing.dead_letters (consumer) WHERE closed_at IS NULL;
CREATE INDEX outbox_events_parked ON homing.outbox_events (topic, id) WHERE parked_error IS NOT NULL AND published_at IS NULL;
ALTER TABLE homing.workers ADD COLUMN routes boolean NOT NULL DEFAULT false;     -- whether the relay's loops turn in this process
ALTER TABLE homing.workers ADD COLUMN state jsonb NOT NULL DEFAULT '{}';         -- what it does now, as of its last heartbeat

-- Retention: what is forgotten of other producers' jobs is found by age, whatever came of them.
DROP INDEX homing.deliveries_inbox;
CREATE INDEX deliveries_inbox ON homing.deliveries (settled_at, event_id, consumer) WHERE origin = 'job' AND settled_at IS NOT NULL;
