-- The ledger: every table that Homing owns. The exact meaning of each column is in docs/reference/tables.md.
-- There are no foreign keys out of the outbox: an application's own migrations never wait for ours.

CREATE TABLE homing.ledger (                              -- one row: which ledger this is, and which engine serves it
  ledger_id uuid NOT NULL DEFAULT gen_random_uuid(),
  engine text NOT NULL CHECK (engine IN ('redis', 'postgres')),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row));

CREATE TABLE homing.outbox_events (                       -- a recorded event; published_at is null until it is routed
  id uuid PRIMARY KEY,                                    -- version 7: prune walks it in order, no index on published_at
  topic text NOT NULL CHECK (topic <> ''),
  aggregate_id text,
  payload jsonb NOT NULL,
  headers jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  available_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  published_at timestamptz,
  parked_error text);
CREATE INDEX outbox_events_unpublished ON homing.outbox_events (topic, available_at, id)
  WHERE published_at IS NULL AND parked_error IS NULL;

CREATE TABLE homing.subscriptions (                       -- routes; inserted by code, retired by people
  topic text NOT NULL,
  consumer text NOT NULL,
  queue text NOT NULL,
  job_name text NOT NULL,
  mode text NOT NULL CHECK (mode IN ('tx', 'after', 'foreign', 'elsewhere')),
  options jsonb NOT NULL DEFAULT '{}',
  aliases text[] NOT NULL DEFAULT '{}',
  registered_at timestamptz NOT NULL DEFAULT now(),
  retired_at timestamptz,
  PRIMARY KEY (topic, consumer));

CREATE TABLE homing.queues (                              -- what the engine must hold, and who sweeps
  queue text PRIMARY KEY,
  epoch integer NOT NULL DEFAULT 0,
  changed_at timestamptz NOT NULL DEFAULT now(),
  settings jsonb NOT NULL DEFAULT '{}',
  sweeper uuid,
  sweeper_until timestamptz NOT NULL DEFAULT '-infinity');

CREATE TABLE homing.queue_epochs (                        -- the incarnations of a queue's data that were seen
  queue text NOT NULL,
  identity text NOT NULL,
  epoch integer NOT NULL CHECK (epoch > 0),
  seen_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (queue, identity),
  UNIQUE (queue, epoch));

CREATE TABLE homing.deliveries (                          -- one event for one consumer: the only judge of what happened
  event_id uuid NOT NULL,
  consumer text NOT NULL,
  queue text NOT NULL,
  job_name text NOT NULL,
  origin text NOT NULL DEFAULT 'outbox' CHECK (origin IN ('outbox', 'job')),
  generation smallint NOT NULL DEFAULT 1 CHECK (generation > 0),
  epoch integer NOT NULL DEFAULT 0 CHECK (epoch >= 0),
  opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  check_at timestamptz NOT NULL DEFAULT 'infinity',
  vanished smallint NOT NULL DEFAULT 0,                   -- times found gone within one epoch
  outcome text CHECK (outcome IN ('done', 'dead', 'cancelled')),
  settled_at timestamptz,
  result jsonb,
  PRIMARY KEY (event_id, consumer),
  CHECK ((outcome IS NULL) = (settled_at IS NULL)),
  CHECK (result IS NULL OR outcome = 'done'))
  WITH (fillfactor = 85);                                 -- room on the page: settling touches no index it need not
CREATE INDEX deliveries_unsettled ON homing.deliveries (queue, epoch, check_at) WHERE settled_at IS NULL;
CREATE INDEX deliveries_inbox ON homing.deliveries (settled_at) WHERE origin = 'job' AND outcome = 'done';

CREATE TABLE homing.dead_letters (                        -- append-only: one row per death
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  event_id uuid NOT NULL,
  consumer text NOT NULL,
  generation smallint NOT NULL,
  queue text NOT NULL,
  job_name text NOT NULL,
  job_id text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('failed', 'poison', 'expired', 'vanished', 'foreign', 'torn')),
  data jsonb NOT NULL,
  error jsonb NOT NULL,
  fingerprint text NOT NULL,
  attempts_made integer NOT NULL,
  failed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  closed_at timestamptz,
  closed_as text CHECK (closed_as IN ('redriven', 'retried', 'late success', 'dismissed')),
  closed_by text,
  closed_why text,
  campaign uuid,
  CHECK ((closed_at IS NULL) = (closed_as IS NULL)));
CREATE UNIQUE INDEX dead_letters_open ON homing.dead_letters (event_id, consumer) WHERE closed_at IS NULL;

CREATE TABLE homing.operator_actions (                    -- what a person did, through command line or page
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  actor text NOT NULL CHECK (actor <> ''),
  action text NOT NULL CHECK (action <> ''),
  subject jsonb NOT NULL,
  affected bigint NOT NULL CHECK (affected >= 0),
  reason text);

CREATE TABLE homing.workers (                             -- one row per process start; its heartbeat says it lives
  id uuid PRIMARY KEY,
  host text NOT NULL,
  pid integer NOT NULL,
  version text NOT NULL,
  role text NOT NULL CHECK (role IN ('worker', 'relay')),
  consumers text[] NOT NULL,
  queues text[] NOT NULL,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  seen_at timestamptz NOT NULL DEFAULT clock_timestamp());
