-- mark_migrated: note that a migration was applied, in the transaction that applied it.
-- Parameters: number integer; name text (both from the file's name); sha256 text (of the file, in hexadecimal).
-- Result: nothing.
-- Guard: primary key. Locks: the new row. Index: migrations_pkey.
INSERT INTO homing.migrations (number, name, sha256) VALUES (:number, :name, :sha256);
