-- Schedules: when jobs are made by the clock, whoever said so, so that an engine that loses its data gets them back.
-- As in 0001: the exact meaning of each column is in docs/reference/tables.md, and nothing here locks an application's own tables.

CREATE TABLE homing.schedules (                           -- what a queue must hold besides its jobs, and how far it was seen to be
  queue text NOT NULL CHECK (queue <> ''),
  schedule text NOT NULL CHECK (schedule <> ''),
  source text NOT NULL CHECK (source IN ('code', 'engine')),
  job_name text NOT NULL,
  data text NOT NULL,                                     -- JSON as each tick's job gets it, letter by letter
  options text NOT NULL,                                  -- JSON: the terms of each tick's job, in BullMQ's words
  cron text,
  zone text NOT NULL DEFAULT 'UTC',
  every_ms bigint CHECK (every_ms > 0),
  start_ms bigint,
  end_ms bigint,
  most_ticks bigint CHECK (most_ticks > 0),               -- null = no limit
  immediate boolean NOT NULL DEFAULT false,
  declared_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  paused_at timestamptz,
  next_ms bigint,                                         -- the tick that the engine held when it was looked at last
  last_ms bigint,                                         -- the one before
  ticks bigint NOT NULL DEFAULT 0 CHECK (ticks >= 0),
  offset_ms bigint,
  PRIMARY KEY (queue, schedule),
  CHECK ((cron IS NULL) <> (every_ms IS NULL)));
