-- Make the schema that everything of Homing lies in.
-- Parameters: none. Needs the right CREATE on the database. Guard: the caller holds the migration lock.
CREATE SCHEMA IF NOT EXISTS homing;
