-- create_schema: make the schema that everything of Homing lies in; needs the right CREATE on the database.
-- Parameters: none.
-- Result: nothing.
-- Guard: the caller holds lock_migrations. Locks: none beyond it. Index: none.
CREATE SCHEMA IF NOT EXISTS homing;
